"""Numbers of one split, from the answers about each of its images."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import confusion_matrix, precision_recall_fscore_support

from engine.predict.answers import Answers
from wire.evaluation import ClassScore, Confusion, ReliabilityBin, SplitEvaluation
from wire.manifests import SplitName

N_BINS: Final = 15
TOP: Final = 5


def split_evaluation(split: SplitName, answers: Answers, classes: Sequence[str]) -> SplitEvaluation:
    """All numbers of a split that has at least one image; every image's label is known.

    An image without an answer counts as wrong; it is in no bin and in no cell of the confusion matrix.
    """
    labels_N, predicted_N = answers.labels_N, answers.predicted_N
    scores = _class_scores(labels_N, predicted_N, classes)
    there = [score for score in scores if score.support]
    loss = float(answers.loss_N.mean()) if answers.is_finite_N.all() else None
    bins = _reliability(answers)
    return SplitEvaluation(
        split=split,
        n_images=len(labels_N),
        loss=loss,
        top1=float((predicted_N == labels_N).mean()),
        top5=_top5(answers) if len(classes) > TOP else None,
        macro_precision=_macro([score.precision for score in there]),
        macro_recall=_macro([score.recall for score in there]),
        macro_f1=_macro([score.f1 for score in there]),
        ece=_calibration_error(bins),
        classes=scores,
        reliability=bins,
        confusion=_confusion(labels_N, predicted_N, len(classes)),
    )


def _top5(answers: Answers) -> float:
    is_among_N = (answers.top_labels_NT[:, :TOP] == answers.labels_N[:, None]).any(axis=1)
    return float((is_among_N & answers.is_finite_N).mean())


def _class_scores(
    labels_N: NDArray[np.int64], predicted_N: NDArray[np.int64], classes: Sequence[str]
) -> tuple[ClassScore, ...]:
    # "No answer" is a label outside of `labels`: a miss for its class, and a false alarm for none.
    numbers = precision_recall_fscore_support(labels_N, predicted_N, labels=range(len(classes)), zero_division=0.0)
    n_predicted_K = np.bincount(predicted_N[predicted_N >= 0], minlength=len(classes))
    return tuple(
        ClassScore(
            label=label,
            name=name,
            support=int(support),
            n_predicted=int(n_predicted),
            precision=float(precision) if support and n_predicted else None,
            recall=float(recall) if support else None,
            f1=float(f1) if support else None,
        )
        for label, (name, precision, recall, f1, support, n_predicted) in enumerate(
            zip(classes, *numbers, n_predicted_K, strict=True)
        )
    )


def _macro(shares: Sequence[float | None]) -> float:
    """The precision of a class that nothing was taken for counts as 0."""
    return float(np.mean([share or 0.0 for share in shares]))


def _reliability(answers: Answers) -> tuple[ReliabilityBin, ...]:
    """Bins of equal width over the highest probability.

    Source: Guo et al., On calibration of modern neural networks (2017), section 2.
    """
    confidence_N = answers.confidence_N[answers.is_finite_N]
    is_right_N = (answers.predicted_N == answers.labels_N)[answers.is_finite_N]
    edges = np.linspace(0, 1, N_BINS + 1)
    # A bin has its upper edge: ``side="left"`` puts a value that equals an edge below it.
    bin_N = np.clip(np.searchsorted(edges, confidence_N, side="left") - 1, 0, N_BINS - 1)
    counts = np.bincount(bin_N, minlength=N_BINS)
    confidences = np.bincount(bin_N, weights=confidence_N, minlength=N_BINS)
    rights = np.bincount(bin_N, weights=is_right_N, minlength=N_BINS)
    return tuple(
        ReliabilityBin(
            lower=float(edges[index]),
            upper=float(edges[index + 1]),
            n_images=int(n),
            confidence=float(confidences[index] / n) if n else None,
            accuracy=float(rights[index] / n) if n else None,
        )
        for index, n in enumerate(counts)
    )


def _calibration_error(bins: Sequence[ReliabilityBin]) -> float:
    """The mean over all images of how far their bin's accuracy is from its confidence.

    Source: Guo et al., On calibration of modern neural networks (2017), equation 3.
    """
    n_images = sum(one.n_images for one in bins)
    gaps = (
        one.n_images * abs(one.accuracy - one.confidence)
        for one in bins
        if one.accuracy is not None and one.confidence is not None
    )
    return sum(gaps) / n_images if n_images else 0.0


def _confusion(labels_N: NDArray[np.int64], predicted_N: NDArray[np.int64], n_classes: int) -> tuple[Confusion, ...]:
    counts_KK = confusion_matrix(labels_N, predicted_N, labels=range(n_classes))
    return tuple(
        Confusion(label=int(label), predicted=int(predicted), n_images=int(counts_KK[label, predicted]))
        for label, predicted in np.argwhere(counts_KK)
    )
