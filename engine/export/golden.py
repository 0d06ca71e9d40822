"""A few images with the answers that belong to them, so that another machine can tell whether it answers the same."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from engine.export.backends import Runtime
from engine.export.sample import Drawn, spread
from engine.export.verify import picture
from engine.predict.session import Session
from engine.store.reader import DatasetReader
from wire.exports import GoldenImage
from wire.layout import ExportDir
from wire.specs import ExportPrecision

N_IMAGES: Final = 8
LONGEST_PX: Final = 1024
"""Larger pictures are made smaller before anybody answers about them, so that bundles stay small."""

_SEED: Final = 0
# What other machines differ by. fp32: the kernels of two processors differ by about 1e-6, units that round to TF32 by
# up to 1e-3. fp16 has three digits, and layers add up. INT8: where two machines round an activation to neighbouring
# steps, of which there are 256, a probability moves by a few hundredths.
_TOLERANCES: Final[dict[ExportPrecision, float]] = {"fp32": 1e-3, "fp16": 5e-3, "int8": 5e-2}
# Where PyTorch has answered in fp32, what the precision itself costs comes on top.
_TOLERANCES_UNMEASURED: Final[dict[ExportPrecision, float]] = {"fp32": 5e-3, "fp16": 1e-2, "int8": 1e-1}


def tolerance(precision: ExportPrecision, *, is_measured: bool, seen: float | None) -> float:
    """By how much another machine's answer may differ in any probability.

    Args:
        precision: of the exported model.
        is_measured: the expected answers are the model's own, not PyTorch's.
        seen: the largest difference between PyTorch and the same graph in another runtime, where that was tried.
    """
    if is_measured:
        return _TOLERANCES[precision]
    return min(1.0, _TOLERANCES_UNMEASURED[precision] + (seen or 0.0))


def make_golden(
    folder: ExportDir,
    reader: DatasetReader,
    drawn: Drawn,
    session: Session,
    runtime: Runtime | None,
    *,
    tolerance: float,
) -> tuple[GoldenImage, ...]:
    """Write the images as PNG, RGB; the answers are of ``runtime``, or of PyTorch where there is none.

    An image about which the answer is not finite is left out.
    """
    golden: list[GoldenImage] = []
    folder.golden_path(1).parent.mkdir(exist_ok=True)
    for sample, label in spread(drawn, N_IMAGES, seed=_SEED):
        image = small(picture(reader, sample))
        shares_K = _answer(image, session, runtime)
        if not np.isfinite(shares_K).all():
            continue
        path = folder.golden_path(len(golden) + 1)
        image.save(path)
        golden.append(
            GoldenImage(
                path=path.relative_to(folder.path).as_posix(),
                label=label,
                name=sample.name,
                probabilities=tuple(shares_K.tolist()),
                tolerance=tolerance,
                is_measured=runtime is not None,
            )
        )
    return tuple(golden)


def small(picture_HWC: NDArray[np.uint8]) -> Image.Image:
    """At most ``LONGEST_PX`` on the longer side."""
    image = Image.fromarray(picture_HWC)
    image.thumbnail((LONGEST_PX, LONGEST_PX), Image.Resampling.LANCZOS)
    return image


def _answer(image: Image.Image, session: Session, runtime: Runtime | None) -> NDArray[np.float32]:
    if runtime is not None:
        shares_1K = runtime.probabilities(np.asarray(image)[None])
    else:
        shares_1K = session.probabilities(session.pixels(image)[None])
    answer_K: NDArray[np.float32] = shares_1K[0]
    return answer_K
