"""Pictures of samples, drawn in this process."""

from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image

from engine.data.decode import decode
from engine.serve.pictures import LARGEST_PX, Pictures, reduced
from engine.serve.stored import N_OPEN_DATASETS, Datasets, below
from tests.kits.serving import picture_bytes, write_dataset
from wire.errors import DatasetMissing, ImageInvalid, NotFound
from wire.serving import PictureRequest

ORIENTATION = 0x0112
TURNED = 6


def opened(picture):
    return Image.open(io.BytesIO(picture.data))


def jpeg(width, height, *, orientation=1, mode="RGB"):
    across = np.linspace(0, 255, width, dtype=np.uint8)
    pixels = np.broadcast_to(across, (height, width))
    exif = Image.Exif()
    exif[ORIENTATION] = orientation
    file = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(pixels)).convert(mode).save(file, "JPEG", exif=exif)
    return file.getvalue()


class TestReduced:
    @pytest.mark.parametrize("px", [16, 64])
    def test_small_ones_are_exact(self, px):
        data = picture_bytes(16, 12)

        drawn = reduced(data, px, name="x")

        assert drawn.mime == "image/png"
        assert np.array_equal(np.asarray(opened(drawn)), np.asarray(decode(data)))

    def test_large_ones_are_webp_of_the_size_that_was_asked_for(self):
        drawn = reduced(jpeg(4000, 3000), 256, name="x")

        assert drawn.mime == "image/webp"
        assert opened(drawn).size == (256, 192)

    def test_nothing_is_enlarged(self):
        assert opened(reduced(picture_bytes(100, 80), 512, name="x")).size == (100, 80)

    @pytest.mark.parametrize(("width", "height"), [(4000, 1), (1, 4000)])
    def test_a_line_keeps_a_pixel(self, width, height):
        assert min(opened(reduced(picture_bytes(width, height), 128, name="x")).size) == 1

    def test_it_is_upright(self):
        drawn = opened(reduced(jpeg(1600, 800, orientation=TURNED), 128, name="x"))

        assert drawn.size == (64, 128)
        assert drawn.getpixel((32, 2)) < drawn.getpixel((32, 125))

    def test_colours_are_those_of_a_training(self):
        """A JPEG that is read at an eighth looks like one that is read whole."""
        data = jpeg(2000, 1500, mode="CMYK")
        whole = decode(data).resize((64, 48), Image.Resampling.BILINEAR)

        fast = opened(reduced(data, 64, name="x"))

        assert fast.size == whole.size
        assert np.abs(np.asarray(fast, int) - np.asarray(whole, int)).max() <= 6

    def test_a_fast_read_never_goes_below_what_is_needed(self):
        assert max(decode(jpeg(4000, 3000), at_least_px=500).size) == 500
        assert max(decode(jpeg(4000, 3000), at_least_px=501).size) == 1000

    @pytest.mark.parametrize(
        ("data", "reason"),
        [(b"", "empty"), (b"<svg/>", "not an image"), (jpeg(64, 64)[:300], "damaged"), (b"\0" * 100, "not an image")],
    )
    def test_what_is_no_image_is_told_by_name(self, data, reason):
        with pytest.raises(ImageInvalid, match=rf"'cat\.jpg' .*{reason}"):
            reduced(data, 64, name="cat.jpg")

    def test_a_bomb_is_refused_before_it_is_unpacked(self):
        with pytest.raises(ImageInvalid, match="pixels"):
            reduced(_png_that_says(30_000, 30_000), 64, name="bomb.png")


def _png_that_says(width, height):
    """A PNG of one pixel whose header speaks of many."""
    import struct
    import zlib

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    checksum = struct.pack(">I", zlib.crc32(b"IHDR" + header))
    data = picture_bytes(1, 1)
    return data[:16] + header + checksum + data[33:]


class TestBelow:
    def test_what_lies_below_is_found(self, tmp_path):
        assert below(tmp_path, "jobs/1/artifacts/dataset") == tmp_path / "jobs/1/artifacts/dataset"

    @pytest.mark.parametrize("path", ["..", "../x", "/etc/passwd", "jobs/../../x", "", ".", "a\0b", "jobs/../.."])
    def test_nothing_else_is(self, tmp_path, path):
        with pytest.raises(NotFound):
            below(tmp_path, path)

    def test_nor_what_a_link_leads_to(self, tmp_path):
        (tmp_path / "root").mkdir()
        (tmp_path / "secret").mkdir()
        (tmp_path / "root" / "link").symlink_to(tmp_path / "secret")

        with pytest.raises(NotFound):
            below(tmp_path / "root", "link")


class TestDatasets:
    def test_it_stays_open_and_the_oldest_goes_first(self, tmp_path):
        datasets = Datasets(tmp_path)
        for number in range(N_OPEN_DATASETS + 1):
            write_dataset(tmp_path / str(number), [("train", 0, picture_bytes())])
        with datasets.reader("0") as first:
            pass

        for number in range(N_OPEN_DATASETS + 1):
            with datasets.reader(str(number)) as reader:
                reader.image_bytes(1)

        with datasets.reader("0") as again:
            assert again is not first
        assert datasets.n_open == N_OPEN_DATASETS
        datasets.close_unused(unused_for_s=0)
        assert datasets.n_open == 0

    def test_one_that_is_read_is_never_closed(self, tmp_path):
        datasets = Datasets(tmp_path)
        write_dataset(tmp_path / "1", [("train", 0, picture_bytes())])

        with datasets.reader("1") as reader:
            datasets.close_unused(unused_for_s=0)
            assert reader.image_bytes(1)

    def test_another_dataset_at_the_same_place_is_another(self, tmp_path):
        import shutil

        datasets = Datasets(tmp_path)
        write_dataset(tmp_path / "1", [("train", 0, picture_bytes(colour="red"))])
        with datasets.reader("1") as reader:
            before = reader.image_bytes(1)
        shutil.rmtree(tmp_path / "1")
        write_dataset(tmp_path / "1", [("train", 0, picture_bytes(colour="blue"))])

        with datasets.reader("1") as reader:
            assert reader.image_bytes(1) != before
        datasets.close_unused(unused_for_s=0)

    def test_a_folder_that_is_none_is_told(self, tmp_path):
        (tmp_path / "1").mkdir()

        with pytest.raises(DatasetMissing), Datasets(tmp_path).reader("1"):
            pass


class TestPictures:
    def test_the_full_view_has_a_limit(self, tmp_path):
        write_dataset(tmp_path / "1", [("train", 0, picture_bytes(LARGEST_PX + 100, 20))])
        datasets = Datasets(tmp_path)

        drawn = Pictures(datasets).of_sample(PictureRequest(dataset="1", sample=1))

        assert opened(drawn).width == LARGEST_PX
        datasets.close_unused(unused_for_s=0)

    def test_a_damaged_sample_is_told(self, tmp_path):
        write_dataset(tmp_path / "1", [("train", 0, b"damaged")])
        datasets = Datasets(tmp_path)

        with pytest.raises(ImageInvalid):
            Pictures(datasets).of_sample(PictureRequest(dataset="1", sample=1))
        datasets.close_unused(unused_for_s=0)
