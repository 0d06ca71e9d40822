"""Says what is in a picture: ``python predict.py IMAGE [IMAGE ...]``. Needs numpy, Pillow and onnxruntime alone.

Pictures are read as they were for training; all that comes after (size, colours, normalisation, softmax) is inside the
model, which takes red, green and blue in bytes, of any size.
"""

from __future__ import annotations

import argparse
import io
import json
import math
import struct
import sys
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps, UnidentifiedImageError

HERE = Path(__file__).resolve().parent
FORMATS = ("JPEG", "PNG", "BMP", "GIF", "WEBP", "TIFF", "PPM")
MAX_PIXELS = 80_000_000
MAX_WEBP_PIXELS = 40_000_000
MAX_SIDE_PX = 32_767  # what the graph resizes exactly
GREY_MODES = ("1", "L", "LA", "La")
TRANSPARENT_MODES = ("RGBA", "RGBa", "LA", "La", "PA")


class ImageUnreadable(ValueError):
    """Says why, as the end of a sentence about the image."""


class ModelMissing(LookupError):
    """Says which model, and what there is."""


def decode(data: bytes) -> NDArray[np.uint8]:
    """Height x width x 3, bytes: red, green, blue.

    The EXIF orientation is applied, the first frame taken, transparency laid over white, 16 bits cut to the upper 8;
    grey images get three equal channels, CMYK and others go through Pillow's conversion to RGB.

    Raises:
        ImageUnreadable: the bytes are no image, are damaged or cut short, or hold too many pixels.
    """
    try:
        with Image.open(io.BytesIO(data), formats=FORMATS) as image:
            if image.width * image.height > (MAX_WEBP_PIXELS if image.format == "WEBP" else MAX_PIXELS):
                raise ImageUnreadable(f"{image.width} x {image.height} pixels are too many")
            if max(image.size) > MAX_SIDE_PX:
                raise ImageUnreadable(f"a side of {max(image.size)} pixels is too long")
            image.load()
            return np.asarray(eight_bits(upright(image)).convert("RGB"))
    except UnidentifiedImageError:
        raise ImageUnreadable("not an image in a format that is read here") from None
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        raise ImageUnreadable("it holds too many pixels") from None
    except (OSError, SyntaxError, ValueError, struct.error, IndexError, KeyError, TypeError, EOFError) as error:
        if isinstance(error, ImageUnreadable):
            raise
        raise ImageUnreadable(f"damaged: {str(error) or type(error).__name__}") from None


def upright(image: Image.Image) -> Image.Image:
    try:
        ImageOps.exif_transpose(image, in_place=True)
    except (OSError, SyntaxError, ValueError, struct.error, KeyError, TypeError, ZeroDivisionError):
        pass  # damaged EXIF counts as none
    return image


def eight_bits(image: Image.Image) -> Image.Image:
    """Mode ``L`` or ``RGB``."""
    if image.mode in ("L", "RGB") and "transparency" not in image.info:
        return image
    if image.mode.startswith("I;16") or (image.mode == "I" and image.format == "PPM"):
        return Image.fromarray((np.asarray(image) >> 8).astype(np.uint8))
    if image.mode in ("I", "F"):
        raise ImageUnreadable("32-bit pixels have no agreed range; save it with 8 or 16 bits")
    if image.mode in TRANSPARENT_MODES or "transparency" in image.info:
        rgba = image.convert("RGBA")
        image_over_white = Image.alpha_composite(Image.new("RGBA", rgba.size, "white"), rgba)
        return image_over_white.convert("L" if image.mode in GREY_MODES else "RGB")
    return image.convert("L" if image.mode in GREY_MODES else "RGB")


class Model:
    """One of the bundle's ONNX models, loaded."""

    def __init__(self, name: str = "", *, n_threads: int = 0) -> None:
        """Take the bundle's default where no ``name`` is given; 0 threads leaves their number to ONNX Runtime.

        Raises:
            ModelMissing: the bundle has no such ONNX model.
        """
        index = json.loads((HERE / "bundle.json").read_text(encoding="utf-8"))
        paths = {model["name"]: model["onnx"] for model in index["models"] if model["onnx"]}
        self.name: str = name or index["default"] or ""
        if self.name not in paths:
            there_are = ", ".join(paths) or "none"
            raise ModelMissing(f"no ONNX model {self.name!r} in this bundle; there are: {there_are}")
        self.classes: list[str] = index["classes"]
        import onnxruntime  # here, for ``decode`` is used without it, too

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = n_threads
        # INT8 overflows on processors without VNNI unless this is set.
        options.add_session_config_entry("session.x64quantprecision", "1")
        # Whoever wants another device names its provider here and runs verify.py again.
        self._session = onnxruntime.InferenceSession(
            str(HERE / paths[self.name]), options, providers=["CPUExecutionProvider"]
        )

    def probabilities(self, pixels: NDArray[np.uint8]) -> NDArray[np.float32]:
        """Of each class, for one image as ``decode`` gives it."""
        (answers,) = self._session.run(["probabilities"], {"images": pixels[np.newaxis]})
        shares: NDArray[np.float32] = np.asarray(answers)[0]
        return shares

    def answer(self, data: bytes, n_top: int = 5) -> list[dict[str, Any]]:
        """The likeliest classes of an encoded image, the likeliest first."""
        shares = self.probabilities(decode(data))
        order = np.argsort(-shares, kind="stable")[:n_top]
        return [{"label": int(n), "class": self.classes[n], "probability": number(shares[n])} for n in order]


def number(share: np.float32) -> float | None:
    """JSON knows neither NaN nor infinity."""
    return float(share) if math.isfinite(share) else None


def printable(text: str) -> str:
    """A class may be called anything; a terminal is not told to do anything by it."""
    return "".join(sign if sign.isprintable() else "?" for sign in text)


def main() -> int:
    parser = argparse.ArgumentParser(description="Say what is in pictures.")
    parser.add_argument("images", nargs="+", type=Path, metavar="IMAGE")
    parser.add_argument("--model", default="", help="such as onnx-fp16; README.md lists them")
    parser.add_argument("--top", type=int, default=5, help="how many classes to name (5)")
    parser.add_argument("--threads", type=int, default=0, help="0 leaves it to ONNX Runtime")
    parser.add_argument("--json", action="store_true", help="one JSON object a line")
    asked = parser.parse_args()
    try:
        model = Model(asked.model, n_threads=asked.threads)
    except ModelMissing as error:
        print(f"predict.py: {error}", file=sys.stderr)
        return 2
    n_unreadable = 0
    for path in asked.images:
        try:
            top = model.answer(path.read_bytes(), max(1, asked.top))
        except (OSError, ImageUnreadable) as error:
            n_unreadable += 1
            print(f"{printable(str(path))}: {printable(str(error))}", file=sys.stderr)
            continue
        show(path, model.name, top, as_json=asked.json)
    return 1 if n_unreadable else 0


def show(path: Path, model: str, top: list[dict[str, Any]], *, as_json: bool) -> None:
    if as_json:
        print(json.dumps({"image": str(path), "model": model, "top": top}))
        return
    print(printable(str(path)))
    for each in top:
        share = "  n/a " if each["probability"] is None else f"{each['probability']:6.4f}"
        print(f"  {share}  {printable(each['class'])}")


if __name__ == "__main__":
    sys.exit(main())
