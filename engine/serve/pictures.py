"""Samples as pictures for a screen: always encoded anew, so that no byte of an original reaches a browser."""

from __future__ import annotations

import io
import threading
from dataclasses import dataclass
from typing import Final

from PIL import Image

from engine.data.decode import ImageUnreadable, decode
from engine.serve.stored import Datasets
from wire.errors import ImageInvalid
from wire.serving import PictureRequest

LARGEST_PX: Final = 4096
"""Of the longest side; larger pictures are reduced even for the full view."""
LARGEST_PNG_PX: Final = 64
"""Up to here the pixels are exactly those of the original; beyond it WebP is a tenth of the bytes."""
WEBP_QUALITY: Final = 82
_WEBP_EFFORT: Final = 2
"""0 to 6: a third of the default's time for a few per cent more bytes."""
N_DECODERS: Final = 2
"""One picture may take 240 MB while it is decoded."""


@dataclass(frozen=True, slots=True)
class Picture:
    data: bytes
    mime: str


class Pictures:
    def __init__(self, datasets: Datasets) -> None:
        self._datasets = datasets
        self._turns = threading.BoundedSemaphore(N_DECODERS)

    def of_sample(self, asked: PictureRequest) -> Picture:
        """The sample upright, in the colours that a training sees, its longest side at most ``px``.

        Raises:
            NotFound: there is no such folder or sample.
            DatasetMissing, DatasetInvalid: there is no dataset, or it is damaged.
            ImageInvalid: the sample's bytes are no image any more.
        """
        with self._datasets.reader(asked.dataset) as reader:
            data = reader.image_bytes(asked.sample)
        with self._turns:
            return reduced(data, asked.px or LARGEST_PX, name=f"image {asked.sample}")


def reduced(data: bytes, px: int, *, name: str) -> Picture:
    """Encoded bytes as a picture whose longest side has at most ``px`` pixels; a small one keeps its size.

    Raises:
        ImageInvalid: the bytes cannot be read; says why and calls them ``name``.
    """
    # Twice as many pixels as wanted are left for the filter, so that no edge shows steps.
    image = read_image(data, name=name, at_least_px=2 * px)
    longest_px = max(image.size)
    if longest_px > px:
        size = (max(1, round(image.width * px / longest_px)), max(1, round(image.height * px / longest_px)))
        image = image.resize(size, Image.Resampling.BILINEAR, reducing_gap=2.0)
    return encoded(image)


def read_image(data: bytes, *, name: str, at_least_px: int | None = None) -> Image.Image:
    """``decode`` whose refusal is one that a person can meet.

    Raises:
        ImageInvalid: the bytes cannot be read.
    """
    try:
        return decode(data, at_least_px=at_least_px)
    except ImageUnreadable as error:
        raise ImageInvalid(
            f"{name!r} cannot be read: {error}.", hint="Bring a JPEG, PNG, WebP, BMP, GIF, TIFF or PPM picture."
        ) from None


def encoded(image: Image.Image) -> Picture:
    file = io.BytesIO()
    if max(image.size) <= LARGEST_PNG_PX:
        image.save(file, "PNG")
        return Picture(file.getvalue(), "image/png")
    image.save(file, "WEBP", quality=WEBP_QUALITY, method=_WEBP_EFFORT)
    return Picture(file.getvalue(), "image/webp")
