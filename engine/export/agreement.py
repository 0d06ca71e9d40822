"""What two models said about the same images, counted; and whether one of them may stand in for the other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from engine.export.intervals import paired_change, wilson
from engine.export.sample import Drawn
from wire.exports import Agreement, Failed, Interval, Passed
from wire.specs import ExportPrecision, VerificationOptions

LEAST_AGREEMENT_PCT: Final[dict[ExportPrecision, float]] = {"fp32": 99.5, "fp16": 99.0, "int8": 90.0}
"""Where the form names none."""
_NO_ANSWER: Final = -1
_ROUNDING_POINTS: Final = 1e-9


@dataclass(slots=True)
class Tally:
    """Filled batch by batch; nothing of a batch is kept."""

    n_images: int = 0
    n_right: int = 0
    n_reference_right: int = 0
    n_gained: int = 0
    """Right here, wrong in PyTorch."""
    n_lost: int = 0
    n_agreed: int = 0
    n_not_finite: int = 0
    max_difference: float = 0.0
    sum_of_differences: float = 0.0
    n_differences: int = 0

    def add(
        self, shares_NK: NDArray[np.float32], reference_NK: NDArray[np.float32], labels_N: NDArray[np.int64]
    ) -> None:
        """Probabilities of the exported model and of PyTorch, and the truth.

        An image without finite numbers has no first answer: it counts as wrong, agrees with nothing, and differs as far
        as probabilities can.
        """
        first_N, reference_N = _first(shares_NK), _first(reference_NK)
        right_N, reference_right_N = first_N == labels_N, reference_N == labels_N
        self.n_images += len(labels_N)
        self.n_right += int(right_N.sum())
        self.n_reference_right += int(reference_right_N.sum())
        self.n_gained += int((right_N & ~reference_right_N).sum())
        self.n_lost += int((~right_N & reference_right_N).sum())
        self.n_agreed += int(((first_N == reference_N) & (first_N != _NO_ANSWER)).sum())
        self.n_not_finite += int((first_N == _NO_ANSWER).sum())
        with np.errstate(invalid="ignore"):
            differences_NK = np.abs(shares_NK.astype(np.float64) - reference_NK)
        differences_NK = np.where(np.isfinite(differences_NK), differences_NK, 1.0)
        self.max_difference = max(self.max_difference, float(differences_NK.max(initial=0.0)))
        self.sum_of_differences += float(differences_NK.sum())
        self.n_differences += differences_NK.size

    def agreement(self, drawn: Drawn) -> Agreement:
        """In figures; of at least one image."""
        change = paired_change(self.n_gained, self.n_lost, self.n_images)
        return Agreement(
            split=drawn.split,
            n_images=self.n_images,
            n_of=drawn.n_of,
            seed=drawn.seed,
            accuracy=self.n_right / self.n_images,
            accuracy_interval=wilson(self.n_right, self.n_images),
            reference_accuracy=self.n_reference_right / self.n_images,
            change_points=100 * (self.n_gained - self.n_lost) / self.n_images,
            change_interval=Interval(lower=100 * change.lower, upper=100 * change.upper),
            agreement=self.n_agreed / self.n_images,
            max_difference=self.max_difference,
            mean_difference=self.sum_of_differences / self.n_differences,
        )


def judged(
    agreement: Agreement, n_not_finite: int, options: VerificationOptions, precision: ExportPrecision
) -> Passed | Failed:
    """Whether the figures keep the limits; each that does not is a sentence."""
    reasons = []
    if n_not_finite:
        reasons.append(
            f"For {n_not_finite:,} of {agreement.n_images:,} images the outputs are not finite; none may be so."
        )
    if -agreement.change_points > options.most_lost_points + _ROUNDING_POINTS:
        reasons.append(
            f"Accuracy fell by {points(-agreement.change_points)}, from {100 * agreement.reference_accuracy:.2f} % to "
            f"{100 * agreement.accuracy:.2f} %; the limit is {points(options.most_lost_points)}."
        )
    least_pct = least_agreement_pct(options, precision)
    if 100 * agreement.agreement < least_pct - _ROUNDING_POINTS:
        reasons.append(
            f"On {100 * agreement.agreement:.2f} % of the images the first answer is PyTorch's; the limit is "
            f"{least_pct:g} %."
        )
    return Failed(reasons=tuple(reasons)) if reasons else Passed()


def doubt(agreement: Agreement, options: VerificationOptions) -> str:
    """A sentence where the images kept the limit and are too few to promise as much of others; else empty.

    The same numbers throughout, as those of PyTorch itself, leave nothing to doubt.
    """
    most_lost = -agreement.change_interval.lower
    kept = -agreement.change_points <= options.most_lost_points
    if not kept or most_lost <= options.most_lost_points or not agreement.max_difference:
        return ""
    n_images = f"{agreement.n_images:,} {'image' if agreement.n_images == 1 else 'images'}"
    if agreement.seed is None:
        return (
            f"The split has {n_images}, all were tried; on others like them the loss may be up to {points(most_lost)}."
        )
    return f"On {n_images} the loss may be up to {points(most_lost)}; verify on more."


def least_agreement_pct(options: VerificationOptions, precision: ExportPrecision) -> float:
    named = options.least_agreement_pct
    return LEAST_AGREEMENT_PCT[precision] if named is None else named


def points(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".") + (" point" if f"{value:.2f}" == "1.00" else " points")


def _first(shares_NK: NDArray[np.float32]) -> NDArray[np.int64]:
    first_N: NDArray[np.int64] = np.where(np.isfinite(shares_NK).all(axis=1), shares_NK.argmax(axis=1), _NO_ANSWER)
    return first_N
