"""What every task must do. Subclass ``TaskKit`` beside the task's own tests, and say what its outputs and labels are.

It proves that the loss starts where chance has it, that the task can be learned, and that the metrics, which are summed
up over batches on the device, are those that a slow loop over single images gives.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import pytest
import torch
import torch._inductor.utils  # an optimiser imports it, and it sets a variable: not inside a test
from torch import Tensor, nn

from engine.catalog import task_cards
from engine.tasks.task import Task

N_CLASSES = 5


class TaskKit:
    name: ClassVar[str]
    chance_loss: ClassVar[float]
    """The loss of outputs that say nothing."""

    def labels(self, n_images: int, generator: torch.Generator) -> Tensor:
        raise NotImplementedError

    def reference(self, outputs_BK: Tensor, labels_B: Tensor) -> Mapping[str, float]:
        """The metrics, computed image by image in plain Python."""
        raise NotImplementedError

    def task(self, **options: Any) -> Task:
        card = task_cards()[self.name]
        task: Task = card.load()(card.options(**options), n_classes=N_CLASSES)
        return task

    def test_the_loss_of_outputs_that_say_nothing_is_that_of_chance(self):
        task = self.task()
        labels_B = self.labels(64, torch.Generator().manual_seed(0))
        loss = task.loss(torch.zeros(64, task.n_outputs), labels_B)
        assert loss.item() == pytest.approx(self.chance_loss)

    def test_eight_samples_are_learned_by_heart(self):
        task, generator = self.task(), torch.Generator().manual_seed(0)
        inputs_BD, labels_B = torch.randn((8, 16), generator=generator), self.labels(8, generator)
        head = nn.Linear(16, task.n_outputs)
        nn.init.zeros_(head.weight)
        nn.init.zeros_(head.bias)
        optimiser = torch.optim.AdamW(head.parameters(), lr=0.1)
        for _ in range(200):
            optimiser.zero_grad()
            torch.autograd.backward(task.loss(head(inputs_BD), labels_B))
            optimiser.step()
        assert task.loss(head(inputs_BD), labels_B).item() < self.chance_loss / 50

    def test_summed_metrics_are_those_of_a_slow_loop(self):
        task, generator = self.task(), torch.Generator().manual_seed(1)
        outputs_NK, labels_N = torch.randn((23, task.n_outputs), generator=generator), self.labels(23, generator)
        batches = zip(outputs_NK.split(5), labels_N.split(5), strict=True)
        shares = [task.sums(outputs_BK, labels_B, task.loss(outputs_BK, labels_B)) for outputs_BK, labels_B in batches]
        values = task.values(torch.stack(shares).sum(dim=0).tolist())
        assert values == pytest.approx(self.reference(outputs_NK, labels_N), rel=1e-5)
        assert set(values) == {info.name for info in task.metrics}

    def test_nothing_summed_up_gives_no_value(self):
        assert self.task().values([]) == {}

    def test_the_best_is_chosen_by_a_metric_that_the_task_declares(self):
        card = task_cards()[self.name]
        split, _, metric = card.main_series.partition("/")
        better = {info.name: info.better for info in self.task().metrics}
        assert (split, better[metric]) == ("val", card.main_better)
