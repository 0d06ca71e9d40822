"""Handwritten digits as a tree of class folders.

Source: E. Alpaydin and C. Kaynak, "Optical Recognition of Handwritten Digits", UCI Machine Learning Repository, 1998,
https://doi.org/10.24432/C50P49 (CC BY 4.0). scikit-learn carries its test part.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np
from PIL import Image

_LEVELS: Final = 16


def write(root: Path) -> None:
    """Write ``<class>/<nnnn>.png``: the scans as they are, 8 x 8 pixels, their 17 levels spread over 0 to 255."""
    from sklearn.datasets import load_digits

    digits = load_digits()
    images_NHW = np.rint(digits.images * 255 / _LEVELS).astype(np.uint8)
    for label in range(10):
        (root / str(label)).mkdir(parents=True)
    for index, (image_HW, label) in enumerate(zip(images_NHW, digits.target, strict=True)):
        Image.fromarray(image_HW).save(root / str(label) / f"{index:04}.png")
