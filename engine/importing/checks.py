"""Opening one file: is it an image that training can read, and what does it look like."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from engine.data.decode import ImageUnreadable, decode
from engine.formats import Found, FoundImage, Stray
from wire.manifests import Refused

_MAX_FILE_BYTES: Final = 512 * 2**20
_LEVELS: Final = np.arange(256) / 255


@dataclass(frozen=True, slots=True)
class CheckedImage:
    """An image that was decoded in full."""

    found: FoundImage
    data: bytes
    width: int
    height: int
    is_grey: bool
    mean_C: NDArray[np.float64]
    """Of the pixels, per channel red, green, blue, 0 to 1."""
    mean_square_C: NDArray[np.float64]


def check(root: Path, found: Found) -> CheckedImage | Refused:
    """Read and decode a file of the tree; safe to call from several threads."""
    if isinstance(found, Stray):
        return Refused(name=found.name, reason=found.reason)
    path = root / found.name
    try:
        if path.stat().st_size > _MAX_FILE_BYTES:
            return Refused(name=found.name, reason=f"the file is larger than {_MAX_FILE_BYTES // 2**20} MiB")
        data = path.read_bytes()
        image = decode(data)
    except ImageUnreadable as error:
        return Refused(name=found.name, reason=str(error))
    except OSError as error:
        return Refused(name=found.name, reason=f"the file cannot be read: {error.strerror or error}")
    # A histogram is counted by Pillow in C and gives exact sums without a float copy of the pixels.
    share_CV = np.array(image.histogram()).reshape(-1, 256) / (image.width * image.height)
    return CheckedImage(
        found=found,
        data=data,
        width=image.width,
        height=image.height,
        is_grey=_is_grey(image, share_CV),
        mean_C=np.broadcast_to(share_CV @ _LEVELS, 3),
        mean_square_C=np.broadcast_to(share_CV @ _LEVELS**2, 3),
    )


def _is_grey(image: Image.Image, share_CV: NDArray[np.float64]) -> bool:
    """Whether the three channels are one and the same; equal histograms are the cheap first question."""
    if image.mode == "L":
        return True
    if not (share_CV == share_CV[0]).all():
        return False
    red, green, blue = (channel.tobytes() for channel in image.split())
    return red == green == blue
