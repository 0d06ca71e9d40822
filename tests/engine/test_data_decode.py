from __future__ import annotations

import io
import struct
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageOps

from engine.data.decode import ImageUnreadable, decode
from tests.kits.trees import encoded, noise

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning:PIL")
"""Pillow warns of damage that it can read around."""


def _pixels(data: bytes) -> np.ndarray:
    return np.asarray(decode(data))


@pytest.mark.parametrize("kind", ["PNG", "BMP", "PPM", "TIFF", "WEBP"])
@pytest.mark.parametrize("mode", ["RGB", "L"])
def test_lossless_formats_give_the_very_pixels(kind, mode):
    picture = noise(7, 5, mode=mode)
    options = {"lossless": True, "exact": True} if kind == "WEBP" else {}
    image = decode(encoded(picture, kind, **options))
    expected = picture.convert("RGB") if kind == "WEBP" else picture
    assert image.mode == expected.mode
    np.testing.assert_array_equal(np.asarray(image), np.asarray(expected))


def test_jpeg_keeps_its_colour_and_its_grey():
    assert decode(encoded(Image.new("RGB", (8, 8), (200, 30, 30)), "JPEG")).mode == "RGB"
    assert decode(encoded(Image.new("L", (8, 8), 77), "JPEG")).mode == "L"


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("kind", ["JPEG", "PNG", "TIFF", "WEBP"])
def test_images_are_turned_upright(orientation, kind):
    """Stored so that a viewer who obeys the tag sees white in the upper left quarter only."""
    upright = Image.new("L", (16, 24), 0)
    upright.paste(255, (0, 0, 8, 12))
    undo = {
        2: Image.Transpose.FLIP_LEFT_RIGHT,
        3: Image.Transpose.ROTATE_180,
        4: Image.Transpose.FLIP_TOP_BOTTOM,
        5: Image.Transpose.TRANSPOSE,
        6: Image.Transpose.ROTATE_90,
        7: Image.Transpose.TRANSVERSE,
        8: Image.Transpose.ROTATE_270,
    }
    stored = upright.transpose(undo[orientation]) if orientation in undo else upright
    exif = Image.Exif()
    exif[0x0112] = orientation
    image = decode(encoded(stored.convert("RGB"), kind, exif=exif)).convert("L")
    assert image.size == (16, 24)
    np.testing.assert_allclose(np.asarray(image, float), np.asarray(upright, float), atol=8)


def test_damaged_exif_is_no_reason_to_refuse():
    picture = noise(6, 4)
    data = encoded(picture, "JPEG", exif=b"Exif\x00\x00MM\x00\x2a\x00\x00\x00\x08\xff\xff\x01\x12")
    assert decode(data).size == (6, 4)


def test_cmyk_becomes_rgb():
    data = encoded(Image.new("CMYK", (8, 8), (0, 255, 255, 0)), "JPEG", quality=95)
    image = decode(data)
    assert image.mode == "RGB"
    red, green, blue = np.asarray(image).reshape(-1, 3).mean(axis=0)
    assert red > 240
    assert green < 15
    assert blue < 15


@pytest.mark.parametrize("kind", ["PNG", "TIFF"])
def test_sixteen_bits_are_cut_not_stretched(kind):
    values_HW = np.array([[0, 255, 256], [4095, 32768, 65535]], np.uint16)
    image = decode(encoded(Image.fromarray(values_HW), kind))
    assert image.mode == "L"
    np.testing.assert_array_equal(np.asarray(image), values_HW >> 8)


def test_big_endian_sixteen_bits_are_read_as_what_they_are():
    values_HW = np.array([[256, 65535]], np.uint16)
    header = b"P5 2 1 65535\n"
    np.testing.assert_array_equal(_pixels(header + values_HW.astype(">u2").tobytes()), values_HW >> 8)


def test_transparency_lies_on_white():
    see_through = Image.new("RGBA", (2, 1), (255, 0, 0, 255))
    see_through.putpixel((1, 0), (0, 0, 0, 0))
    np.testing.assert_array_equal(_pixels(encoded(see_through)), [[[255, 0, 0], [255, 255, 255]]])
    half = Image.new("LA", (1, 1), (0, 128))
    image = decode(encoded(half))
    assert image.mode == "L"
    assert image.getpixel((0, 0)) == pytest.approx(127, abs=1)


def test_a_transparent_palette_colour_lies_on_white():
    picture = Image.new("P", (2, 1))
    picture.putpalette([10, 20, 30, 200, 100, 0] + [0] * 762)
    picture.putdata([0, 1])
    np.testing.assert_array_equal(_pixels(encoded(picture)), [[[10, 20, 30], [200, 100, 0]]])
    np.testing.assert_array_equal(_pixels(encoded(picture, transparency=0)), [[[255, 255, 255], [200, 100, 0]]])


def _with_alpha(image: Image.Image) -> Image.Image:
    image.putalpha(noise(*image.size, seed=1, mode="L"))
    return image


@pytest.mark.parametrize(
    ("picture", "options"),
    [
        (_with_alpha(noise(9, 7)), {}),
        (_with_alpha(noise(9, 7, mode="L")), {}),
        (noise(9, 7).convert("P"), {"transparency": 3}),
        (noise(9, 7), {"transparency": noise(9, 7).getpixel((4, 5))}),
        (noise(9, 7, mode="L"), {"transparency": 0}),
    ],
    ids=["RGBA", "LA", "palette", "one colour", "one grey"],
)
def test_laid_over_white_in_strips_as_in_one_piece(monkeypatch, picture, options):
    data = encoded(picture, **options)
    with Image.open(io.BytesIO(data)) as image:
        rgba = image.convert("RGBA")
    in_one_piece = Image.alpha_composite(Image.new("RGBA", rgba.size, "white"), rgba)
    for n_pixels in (1, 20, 1000):
        monkeypatch.setattr("engine.data.decode._CONVERTED_AT_ONCE", n_pixels)
        flat = decode(data)
        np.testing.assert_array_equal(np.asarray(flat), np.asarray(in_one_piece.convert(flat.mode)))


@pytest.mark.parametrize("mode", ["CMYK", "P", "YCbCr"])
def test_converted_in_strips_as_in_one_piece(monkeypatch, mode):
    picture = noise(9, 7).convert(mode)
    data = encoded(picture, "TIFF")
    in_one_piece = _pixels(data)
    for n_pixels in (1, 20):
        monkeypatch.setattr("engine.data.decode._CONVERTED_AT_ONCE", n_pixels)
        np.testing.assert_array_equal(_pixels(data), in_one_piece)


@pytest.mark.slow
def test_the_largest_picture_that_is_taken_fits_in_memory(tmp_path):
    """80 million pixels with transparency and no compression, the file in memory too."""
    path = tmp_path / "large.tif"
    Image.new("RGBA", (10_000, 8_000), (10, 20, 30, 128)).save(path)
    script = """
import sys
from pathlib import Path
from engine.data.decode import decode
from tests.kits.memory import peak_bytes
print(decode(Path(sys.argv[1]).read_bytes()).getpixel((0, 0)))
print(peak_bytes())
"""
    done = subprocess.run([sys.executable, "-c", script, str(path)], capture_output=True, text=True, check=True)
    colour, peak_bytes = done.stdout.splitlines()
    assert colour == "(132, 137, 142)"
    assert int(peak_bytes) - path.stat().st_size < 700 * 2**20
    assert int(peak_bytes) < 10**9


def test_black_and_white_is_grey():
    image = decode(encoded(noise(9, 5, mode="L").convert("1")))
    assert image.mode == "L"
    assert set(np.unique(np.asarray(image))) == {0, 255}


@pytest.mark.parametrize("kind", ["GIF", "PNG", "WEBP", "TIFF"])
def test_of_an_animation_the_first_picture_is_taken(kind):
    frames = [Image.new("RGB", (4, 4), colour) for colour in ("red", "lime", "blue")]
    options = {"lossless": True} if kind == "WEBP" else {}
    data = encoded(frames[0], kind, save_all=True, append_images=frames[1:], **options)
    np.testing.assert_array_equal(_pixels(data)[0, 0], [255, 0, 0])


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "the file is empty"),
        (b"I am text", "not an image in a format that is read here"),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", "not an image in a format that is read here"),
        (encoded(noise(50, 50), "JPEG")[:900], "damaged"),
        (encoded(noise(50, 50), "PNG")[:900], "damaged"),
        (encoded(Image.fromarray(np.ones((3, 3), np.float32)), "TIFF"), "32-bit pixels"),
        (encoded(Image.fromarray(np.ones((3, 3), np.int32)), "TIFF"), "32-bit pixels"),
    ],
)
def test_what_is_no_image_says_why(data, reason):
    with pytest.raises(ImageUnreadable, match=reason):
        decode(data)


def test_a_small_file_of_endless_pixels_is_refused_unread():
    for side in (9_500, 65_000):
        header = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
        data = encoded(noise(1, 1)).replace(encoded(noise(1, 1))[16:29], header)
        with pytest.raises(ImageUnreadable):
            decode(data)


@settings(deadline=None, max_examples=200)
@given(st.sampled_from(["PNG", "JPEG", "GIF", "BMP", "TIFF", "WEBP"]), st.data())
def test_any_damage_gives_an_image_or_a_reason(kind, data):
    whole = bytearray(encoded(noise(12, 9), kind))
    for _ in range(data.draw(st.integers(1, 8))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    cut = bytes(whole[: data.draw(st.integers(0, len(whole)))])
    try:
        image = decode(cut)
    except ImageUnreadable:
        return
    assert image.mode in ("L", "RGB")
    assert len(image.tobytes()) == image.width * image.height * len(image.getbands())


def test_reading_agrees_with_pillow_on_a_photograph_like_jpeg():
    smooth = noise(8, 8).resize((64, 48), Image.Resampling.BICUBIC)
    data = encoded(smooth, "JPEG", quality=90)
    with Image.open(io.BytesIO(data)) as image:
        np.testing.assert_array_equal(_pixels(data), np.asarray(ImageOps.exif_transpose(image).convert("RGB")))
