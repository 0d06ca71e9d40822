"""What a network's outputs say about a batch of images, whether the truth is known or not."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Final, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from engine.store.predictions import Prediction
from wire.manifests import SplitName

Number = TypeVar("Number", bound=np.generic)

UNKNOWN: Final = -1
"""In place of a label: the truth is not known, or there is no answer."""
NOT_FINITE: Final = "the network's outputs are not finite"


@dataclass(frozen=True, slots=True)
class Answer:
    """About one image. Without an answer (the outputs are not finite) ``predicted`` is None and ``top`` empty."""

    label: int | None
    predicted: int | None
    confidence: float | None
    truth_probability: float | None
    loss: float | None
    top: tuple[tuple[int, float], ...]

    def prediction(
        self,
        id_: int,
        name: str,
        *,
        split: SplitName | None = None,
        sample: int | None = None,
        n_top: int | None = None,
    ) -> Prediction:
        """The row of the image that is called ``name``; ``n_top`` is how many classes it names, None for all."""
        return Prediction(
            *(id_, split, sample, name, self.label, self.predicted, self.confidence, self.truth_probability, self.loss),
            error=None if self.top else NOT_FINITE,
            top=self.top[:n_top],
        )


@dataclass(frozen=True, slots=True)
class Answers:
    """About N images, T likeliest classes each; what is not known is ``UNKNOWN`` or NaN."""

    labels_N: NDArray[np.int64]
    top_labels_NT: NDArray[np.int64]
    """The likeliest first; of two that are equal the one with the lower number, as argmax has it."""
    top_shares_NT: NDArray[np.float64]
    truth_shares_N: NDArray[np.float64]
    loss_N: NDArray[np.float64]
    is_finite_N: NDArray[np.bool_]

    @property
    def predicted_N(self) -> NDArray[np.int64]:  # noqa: N802  the suffix names the axis
        return np.where(self.is_finite_N, self.top_labels_NT[:, 0], UNKNOWN)

    @property
    def confidence_N(self) -> NDArray[np.float64]:  # noqa: N802
        return np.where(self.is_finite_N, self.top_shares_NT[:, 0], np.nan)

    def of_known_truth(self) -> Answers:
        has_truth_N = self.labels_N != UNKNOWN
        return Answers(*(getattr(self, name)[has_truth_N] for name in _COLUMNS))

    def each(self) -> Iterator[Answer]:
        columns = (self.labels_N, self.top_labels_NT, self.top_shares_NT, self.truth_shares_N, self.loss_N)
        for is_finite, label, labels, shares, truth_share, loss in zip(
            self.is_finite_N.tolist(), *(column.tolist() for column in columns), strict=True
        ):
            known = None if label == UNKNOWN else label
            if not is_finite:
                yield Answer(known, None, None, None, None, ())
                continue
            yield Answer(
                label=known,
                predicted=labels[0],
                confidence=shares[0],
                truth_probability=None if known is None else truth_share,
                loss=None if known is None else loss,
                top=tuple(zip(labels, shares, strict=True)),
            )


_COLUMNS: Final = tuple(field.name for field in fields(Answers))


@torch.inference_mode()
def read_answers(logits_BK: Tensor, labels_B: Tensor, *, top: int) -> Answers:
    """Softmax, order and cross entropy, all in fp32, on the device of ``logits_BK``.

    Args:
        logits_BK: the network's outputs.
        labels_B: ``UNKNOWN`` where the truth is not known.
        top: how many classes an answer names; fewer where there are fewer.
    """
    log_shares_BK = logits_BK.float().log_softmax(dim=1)
    order_BK = logits_BK.sort(dim=1, descending=True, stable=True).indices[:, :top]
    has_truth_B = labels_B != UNKNOWN
    truth_B = log_shares_BK.gather(1, labels_B.clamp(min=0)[:, None]).squeeze(1)
    truth_B = torch.where(has_truth_B, truth_B, torch.full_like(truth_B, torch.nan))
    return Answers(
        labels_N=_array(labels_B, np.int64),
        top_labels_NT=_array(order_BK, np.int64),
        top_shares_NT=_array(log_shares_BK.gather(1, order_BK).exp(), np.float64),
        truth_shares_N=_array(truth_B.exp(), np.float64),
        loss_N=_array(-truth_B, np.float64),
        is_finite_N=logits_BK.isfinite().all(dim=1).cpu().numpy(),
    )


def joined(parts: list[Answers]) -> Answers:
    """Of several batches, in their order."""
    return Answers(*(np.concatenate([getattr(part, name) for part in parts]) for name in _COLUMNS))


def _array(values: Tensor, kind: type[Number]) -> NDArray[Number]:
    array: NDArray[Number] = values.cpu().numpy().astype(kind)
    return array
