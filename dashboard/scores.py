"""What an evaluation found, as its page shows it: rows of classes, pairs that are taken for one another, splits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Self

from dashboard.gallery import SPLIT_LABELS
from jobs.selectors import JobSummary
from jobs.states import Status
from wire.evaluation import ClassScore, EvaluationReport, SplitEvaluation
from wire.manifests import SplitName

MOST_PAIRS: Final = 20


@dataclass(frozen=True, slots=True)
class SplitScore:
    """The few numbers of a split that lists show; shares are 0 to 1."""

    split: str
    label: str
    n_images: int | None
    top1: float | None
    top5: float | None
    macro_f1: float | None
    ece: float | None
    loss: float | None

    @classmethod
    def of_meta(cls, split: SplitName, found: dict[str, Any]) -> Self:
        numbers = (found.get(name) for name in ("n_images", "top1", "top5", "macro_f1", "ece", "loss"))
        return cls(split, SPLIT_LABELS[split], *numbers)


@dataclass(frozen=True, slots=True)
class EvaluationRow:
    """An evaluation in a list."""

    summary: JobSummary
    checkpoint: str
    chosen: str
    splits: list[SplitScore]

    @classmethod
    def of_summary(cls, summary: JobSummary) -> Self:
        meta = summary.report_meta or {}
        checkpoint = meta.get("checkpoint", {})
        found: dict[SplitName, Any] = meta.get("splits", {})
        return cls(
            summary,
            checkpoint.get("name", ""),
            checkpoint.get("chosen", ""),
            [SplitScore.of_meta(split, found[split]) for split in SPLIT_LABELS if split in found],
        )

    @property
    def val(self) -> SplitScore | None:
        return self._split("val")

    @property
    def test(self) -> SplitScore | None:
        return self._split("test")

    def _split(self, name: SplitName) -> SplitScore | None:
        return next((split for split in self.splits if split.split == name), None)

    @property
    def has_top5(self) -> bool:
        return any(split.top5 is not None for split in self.splits)


def told_first(rows: Sequence[JobSummary]) -> EvaluationRow | None:
    """Of evaluations, newest first, the one that a summary tells: the newest that succeeded, else the newest."""
    shown = next((row for row in rows if row.status == Status.SUCCEEDED), rows[0] if rows else None)
    return None if shown is None else EvaluationRow.of_summary(shown)


@dataclass(frozen=True, slots=True)
class ClassRow:
    score: ClassScore
    n_right: int

    @property
    def n_wrong(self) -> int:
        """Also those without an answer."""
        return self.score.support - self.n_right


@dataclass(frozen=True, slots=True)
class Pair:
    """Images of one class that were taken for another."""

    label: int
    truth: str
    predicted_label: int
    predicted: str
    n_images: int
    n_of_class: int

    @property
    def share(self) -> float:
        return self.n_images / max(1, self.n_of_class)


@dataclass(frozen=True, slots=True)
class SplitScores:
    """A split of a report, for the page."""

    found: SplitEvaluation
    label: str
    classes: list[ClassRow]
    pairs: list[Pair]
    n_pairs: int
    """All that occur."""

    @property
    def n_without_images(self) -> int:
        return sum(not row.score.support for row in self.classes)

    @property
    def bins(self) -> list[tuple[str, int, float | None, float | None]]:
        """Range, images, mean probability and share that was right, of bins with images."""
        return [
            (f"{100 * each.lower:.0f} to {100 * each.upper:.0f} %", each.n_images, each.confidence, each.accuracy)
            for each in self.found.reliability
            if each.n_images
        ]


def split_scores(report: EvaluationReport, found: SplitEvaluation) -> SplitScores:
    right = {cell.label: cell.n_images for cell in found.confusion if cell.label == cell.predicted}
    mistaken = [cell for cell in found.confusion if cell.label != cell.predicted]
    mistaken.sort(key=lambda cell: (-cell.n_images, cell.label, cell.predicted))
    support = {score.label: score.support for score in found.classes}
    pairs = [
        Pair(
            cell.label,
            report.classes[cell.label],
            cell.predicted,
            report.classes[cell.predicted],
            cell.n_images,
            support.get(cell.label, 0),
        )
        for cell in mistaken[:MOST_PAIRS]
    ]
    rows = [ClassRow(score, right.get(score.label, 0)) for score in found.classes]
    return SplitScores(found, SPLIT_LABELS[found.split], rows, pairs, len(mistaken))
