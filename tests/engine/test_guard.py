from __future__ import annotations

import math

import pytest
import torch

from engine.emit import MemorySink
from engine.train.guard import FiniteGuard
from wire.errors import LossNotFinite
from wire.events import Scalars

pytestmark = pytest.mark.slow


def _guard(sink: MemorySink, *, reads_at_once: bool, rate: float = 1e-3, precision: str = "fp32") -> FiniteGuard:
    return FiniteGuard(
        sink,
        device=torch.device("cpu"),
        reads_at_once=reads_at_once,
        learning_rate=lambda step: rate * (step + 1),
        steps_per_epoch=4,
        precision=precision,
        optimiser="adamw",
    )


@pytest.mark.parametrize("reads_at_once", [True, False])
@pytest.mark.parametrize(("loss", "name"), [(math.nan, "nan"), (math.inf, "inf"), (-math.inf, "-inf")])
def test_the_first_loss_that_is_not_finite_is_named_with_step_epoch_and_rate(reads_at_once, loss, name):
    sink = MemorySink()
    guard = _guard(sink, reads_at_once=reads_at_once)

    def look() -> None:
        for step, value in enumerate([1.0, 2.0, 3.0, 4.0, 5.0, loss, 7.0, math.nan], start=1):
            guard.look(torch.tensor(value), step)
        guard.settle()

    with pytest.raises(LossNotFinite, match=rf"became {name} at step 6 \(epoch 2\), with a learning rate of 0\.006"):
        look()
    assert sink.events == [Scalars(step=6, values={"train/loss": None}, nonfinite={"train/loss": name})]
    assert sink.synced_seq == 1


@pytest.mark.parametrize("reads_at_once", [True, False])
def test_finite_losses_pass(reads_at_once):
    sink = MemorySink()
    guard = _guard(sink, reads_at_once=reads_at_once)
    for step in range(1, 5):
        guard.look(torch.tensor(1e30), step)
    guard.settle()
    assert sink.events == []


@pytest.mark.parametrize(
    ("rate", "precision", "hint"),
    [
        (1e15, "fp32", "0.001 is a usual value"),
        (1e-4, "fp16", "bf16 or fp32"),
        (1e-4, "fp32", "for example to 1e-05"),
    ],
)
def test_the_hint_says_what_to_change(rate, precision, hint):
    guard = _guard(MemorySink(), reads_at_once=True, rate=rate, precision=precision)
    with pytest.raises(LossNotFinite) as raised:
        guard.look(torch.tensor(math.nan), 1)
    assert hint in raised.value.hint
