"""Encoded bytes to pixels, the same way wherever an image is read: import, training, preview.

What comes out is mode ``L`` for images that hold grey only, else ``RGB``, turned upright. Choices made:

- Formats: JPEG, PNG, BMP, GIF, WebP, TIFF, PPM. Others have parsers that see little use and many security fixes.
- The EXIF orientation is applied; width and height are those of the upright image. Damaged EXIF counts as none.
- Of an animation or of several pages the first is taken.
- Transparency is laid over white, the paper most drawings and logos were made for.
- CMYK and other colour models go through Pillow's conversion to RGB; embedded colour profiles are not applied.
- 16 bits are cut to 8 by dropping the low byte, never stretched: equal values stay equal between images. 32-bit
  integers and floats have no agreed range and are refused. (PPM has 16 bits at most; Pillow only calls them 32.)
"""

from __future__ import annotations

import io
import math
import struct
from collections.abc import Callable
from typing import Final

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError

FORMATS: Final = ("JPEG", "PNG", "BMP", "GIF", "WEBP", "TIFF", "PPM")
MAX_PIXELS: Final = 80_000_000
"""About 240 MB once decoded; just below where Pillow itself begins to warn."""
MAX_WEBP_PIXELS: Final = 40_000_000
"""Its decoder holds several copies: 80 million pixels took 1.2 GB."""

_GREY_MODES: Final = ("1", "L", "LA", "La")
_WHERE_ORIENTATION_STANDS: Final = {"exif", "xmp"}
_TRANSPARENT_MODES: Final = ("RGBA", "RGBa", "LA", "La", "PA")

_CONVERTED_AT_ONCE: Final = 2**20
"""Pixels."""


class ImageUnreadable(ValueError):
    """Says why, as the end of a sentence about the image."""


def decode(
    data: bytes, *, at_least_px: int | None = None, on_open: Callable[[Image.Image], object] | None = None
) -> Image.Image:
    """The image upright, mode ``L`` or ``RGB``, all pixels loaded.

    Args:
        data: the encoded bytes.
        at_least_px: for a screen, never for a network: a JPEG may come out at a half, a quarter or an eighth of its
            size, which is many times faster, as long as its longest side keeps this many pixels.
        on_open: is given the image while only its header was read, to mind its size.

    Raises:
        ImageUnreadable: the bytes are no image, are damaged or cut short, or hold more than ``MAX_PIXELS``.
    """
    if not data:
        raise ImageUnreadable("the file is empty")
    try:
        with Image.open(io.BytesIO(data), formats=FORMATS) as image:
            if image.width * image.height > (MAX_WEBP_PIXELS if image.format == "WEBP" else MAX_PIXELS):
                raise ImageUnreadable(f"{image.width} x {image.height} pixels are too many")
            if on_open is not None:
                on_open(image)
            if at_least_px is not None:
                reduction = min(1.0, at_least_px / max(image.size))
                image.draft(None, (math.ceil(image.width * reduction), math.ceil(image.height * reduction)))
            image.load()
            return _eight_bits(_upright(image))
    except UnidentifiedImageError:
        raise ImageUnreadable("not an image in a format that is read here") from None
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        raise ImageUnreadable("it holds too many pixels") from None
    # Pillow's parsers raise whatever their arithmetic meets when a file is damaged.
    except (OSError, SyntaxError, ValueError, struct.error, IndexError, KeyError, TypeError, EOFError) as error:
        if isinstance(error, ImageUnreadable):
            raise
        raise ImageUnreadable(f"damaged: {str(error) or type(error).__name__}") from None


def _upright(image: Image.Image) -> Image.Image:
    # Most JPEGs say nothing of their orientation, and looking for it takes a sixth of the time of a small one.
    if image.format == "JPEG" and not image.info.keys() & _WHERE_ORIENTATION_STANDS:
        return image
    try:
        ImageOps.exif_transpose(image, in_place=True)
    except (OSError, SyntaxError, ValueError, struct.error, KeyError, TypeError, ZeroDivisionError):
        pass
    return image


def _eight_bits(image: Image.Image) -> Image.Image:
    if image.mode in ("L", "RGB") and "transparency" not in image.info:
        return image
    if image.mode.startswith("I;16") or (image.mode == "I" and image.format == "PPM"):
        return Image.fromarray((np.asarray(image) >> 8).astype(np.uint8))
    if image.mode in ("I", "F"):
        raise ImageUnreadable("32-bit pixels have no agreed range; save it with 8 or 16 bits")
    mode = "L" if image.mode in _GREY_MODES else "RGB"
    if image.mode in _TRANSPARENT_MODES or "transparency" in image.info:
        return _in_strips(image, mode, lambda strip: _over_white(strip).convert(mode))
    return _in_strips(image, mode, lambda strip: strip.convert(mode))


def _over_white(image: Image.Image) -> Image.Image:
    rgba = image.convert("RGBA")
    paper = Image.new("RGBA", rgba.size, "white")
    return Image.alpha_composite(paper, rgba)


def _in_strips(image: Image.Image, mode: str, convert: Callable[[Image.Image], Image.Image]) -> Image.Image:
    """A large image is converted strip by strip, and closed before the channels become one image.

    Otherwise copies of four bytes a pixel, as Pillow keeps colours, would lie in memory at the same time.
    """
    if image.width * image.height <= _CONVERTED_AT_ONCE:
        return convert(image)
    bands = [Image.new("L", image.size) for _ in mode]
    rows = max(1, _CONVERTED_AT_ONCE // image.width)
    for top in range(0, image.height, rows):
        strip = convert(image.crop((0, top, image.width, min(image.height, top + rows))))
        for band, part in zip(bands, strip.split(), strict=True):
            band.paste(part, (0, top))
    image.close()
    return Image.merge(mode, bands)
