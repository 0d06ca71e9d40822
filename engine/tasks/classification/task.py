from __future__ import annotations

from collections.abc import Sequence

import torch
from pydantic import BaseModel
from torch import Tensor
from torch.nn import functional as F

from engine.tasks.classification.card import ClassificationOptions
from wire.events import SeriesInfo


class Classification:
    """Cross entropy over classes; the share of images whose highest output is the right one.

    The totals are: images, loss times images, right answers.
    """

    metrics = (SeriesInfo(name="loss", better="lower"), SeriesInfo(name="top1", unit="%", better="higher"))

    def __init__(self, options: BaseModel, *, n_classes: int) -> None:
        self._label_smoothing = ClassificationOptions.model_validate(options.model_dump()).label_smoothing
        self._n_classes = n_classes

    @property
    def n_outputs(self) -> int:
        return self._n_classes

    def loss(self, outputs_BK: Tensor, labels_B: Tensor) -> Tensor:
        """Cross entropy in fp32, whatever the precision of the outputs.

        Source: label smoothing as in Szegedy et al., Rethinking the Inception architecture (2016), section 7.
        """
        return F.cross_entropy(outputs_BK.float(), labels_B, label_smoothing=self._label_smoothing)

    def sums(self, outputs_BK: Tensor, labels_B: Tensor, loss: Tensor) -> Tensor:
        n_images = loss.new_full((), len(labels_B), dtype=torch.float64)
        n_right = (outputs_BK.detach().argmax(dim=1) == labels_B).sum()
        return torch.stack((n_images, loss.detach() * n_images, n_right.double()))

    def values(self, sums: Sequence[float]) -> dict[str, float]:
        if not sums or not sums[0]:
            return {}
        n_images, loss, n_right = sums
        return {"loss": loss / n_images, "top1": 100 * n_right / n_images}
