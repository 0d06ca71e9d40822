from __future__ import annotations

import math
from collections.abc import Mapping

import pytest
import torch
from torch import Tensor

from engine.catalog import task_cards
from tests.kits.task_kit import N_CLASSES, TaskKit

pytestmark = pytest.mark.slow


class TestClassification(TaskKit):
    name = "classification"
    chance_loss = math.log(N_CLASSES)

    def labels(self, n_images: int, generator: torch.Generator) -> Tensor:
        return torch.randint(N_CLASSES, (n_images,), generator=generator)

    def reference(self, outputs_BK: Tensor, labels_B: Tensor) -> Mapping[str, float]:
        losses, n_right = [], 0
        for outputs, label in zip(outputs_BK.tolist(), labels_B.tolist(), strict=True):
            losses.append(math.log(sum(math.exp(output) for output in outputs)) - outputs[label])
            n_right += outputs[label] == max(outputs)
        return {"loss": sum(losses) / len(losses), "top1": 100 * n_right / len(losses)}

    def test_label_smoothing_spreads_the_target(self):
        outputs_BK, labels_B = torch.tensor([[3.0, 0, 0, 0, 0]]), torch.tensor([0])
        log_total = math.log(math.exp(3) + 4)
        expected = 0.9 * (log_total - 3) + 0.1 * (5 * log_total - 3) / 5
        assert self.task(label_smoothing=0.1).loss(outputs_BK, labels_B).item() == pytest.approx(expected)

    def test_the_loss_is_taken_in_fp32_whatever_the_outputs_are(self):
        loss = self.task().loss(torch.tensor([[300.0, 0.5, 0, 0, 0]], dtype=torch.bfloat16), torch.tensor([1]))
        assert loss.dtype == torch.float32
        assert loss.item() == pytest.approx(299.5)


def test_every_task_has_a_kit():
    assert {kit.name for kit in TaskKit.__subclasses__()} >= set(task_cards())
