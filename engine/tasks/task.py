"""What the training asks of a task. An implementation is built from the task's options and the dataset's classes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from pydantic import BaseModel
from torch import Tensor

from wire.events import SeriesInfo


class Task(Protocol):
    """B images, K outputs. ``sums`` are a task's own running totals: one float64 vector, added up over batches."""

    metrics: Sequence[SeriesInfo]
    """Names without the split: ``loss``, ``top1``."""

    def __init__(self, options: BaseModel, *, n_classes: int) -> None: ...

    @property
    def n_outputs(self) -> int:
        """How wide the network's head is."""
        ...

    def loss(self, outputs_BK: Tensor, labels_B: Tensor) -> Tensor:
        """What is minimised: the mean over the batch, a scalar."""
        ...

    def sums(self, outputs_BK: Tensor, labels_B: Tensor, loss: Tensor) -> Tensor:
        """The batch's share in the totals. Cost: no synchronisation, the result stays on the device."""
        ...

    def values(self, sums: Sequence[float]) -> dict[str, float]:
        """The metrics that the totals give, by name; empty where nothing was added up."""
        ...
