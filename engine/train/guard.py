from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from engine.emit import Sink, scalars
from wire.errors import LossNotFinite
from wire.specs import Optimiser

_USUAL_RATE: dict[Optimiser, float] = {"sgd": 0.1, "nesterov": 0.1, "adamw": 0.001}


class FiniteGuard:
    """Ends the training at its first loss that is not finite.

    On a CPU each loss is looked at before the step that would carry it into the weights. On a GPU looking would stall
    the device, so the first bad step is noted there, and read by ``settle`` where the training synchronises anyway.
    """

    def __init__(
        self,
        sink: Sink,
        *,
        device: torch.device,
        reads_at_once: bool,
        learning_rate: Callable[[int], float],
        steps_per_epoch: int,
        precision: str,
        optimiser: Optimiser,
    ) -> None:
        self._sink = sink
        self._reads_at_once = reads_at_once
        self._learning_rate = learning_rate
        self._steps_per_epoch = steps_per_epoch
        self._precision = precision
        self._optimiser = optimiser
        self._bad_step = torch.zeros((), dtype=torch.int64, device=device)
        self._bad_loss = torch.zeros((), device=device)

    def look(self, loss: Tensor, step: int) -> None:
        """Note the loss of ``step``, counted from 1."""
        loss = loss.detach()
        if self._reads_at_once:
            if not torch.isfinite(loss):
                raise self._error(step, loss.item())
            return
        is_first = ~torch.isfinite(loss) & (self._bad_step == 0)
        self._bad_step.add_(is_first * step)
        self._bad_loss.copy_(torch.where(is_first, loss, self._bad_loss))

    def settle(self) -> None:
        """Raise what was noted since. Cost: one synchronisation on a GPU.

        Raises:
            LossNotFinite: with the first step at which it was so.
        """
        if not self._reads_at_once and (step := int(self._bad_step.item())):
            raise self._error(step, self._bad_loss.item())

    def _error(self, step: int, loss: float) -> LossNotFinite:
        self._sink.emit(scalars(step, {"train/loss": loss}))
        self._sink.sync()
        rate = self._learning_rate(step - 1)
        epoch = (step - 1) // self._steps_per_epoch + 1
        return LossNotFinite(
            f"The training loss became {loss} at step {step} (epoch {epoch}), with a learning rate of {rate:.3g}.",
            hint=self._hint(rate),
        )

    def _hint(self, rate: float) -> str:
        usual = _USUAL_RATE[self._optimiser]
        if rate > usual:
            return f"Lower the learning rate: {usual:g} is a usual value for this optimiser."
        if self._precision == "fp16":
            return "Choose bf16 or fp32 precision: fp16 cannot hold numbers above 65,504."
        return f"Lower the learning rate, for example to {rate / 10:.1g}, or lengthen the warm-up."
