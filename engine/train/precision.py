from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.optim import Optimizer

from engine.device import Device
from wire.specs import Precision as Wanted

_DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


@dataclass(frozen=True, slots=True)
class Precision:
    """Mixed precision: weights stay fp32, the forward pass runs in ``name`` where that is safe."""

    name: str
    device_type: str
    scaler: torch.amp.GradScaler
    """Scales the loss in fp16, whose smallest number gradients fall below; does nothing otherwise."""

    def autocast(self) -> torch.autocast:
        return torch.autocast(self.device_type, dtype=_DTYPES[self.name], enabled=self.name != "fp32")

    def backward(self, loss: Tensor) -> None:
        """Add this loss's gradients to those that are there."""
        self.scaler.scale(loss).backward()  # type: ignore[no-untyped-call]

    def step(self, optimiser: Optimizer) -> None:
        """Update the weights. In fp16 a step whose gradients overflow is left out and the scale is halved."""
        self.scaler.step(optimiser)
        self.scaler.update()


def choose_precision(wanted: Wanted, device: Device) -> Precision:
    """``auto`` is bf16 where the device has units for it; elsewhere bf16 would be several times slower than fp32."""
    name = ("bf16" if device.has_bf16 else "fp32") if wanted == "auto" else wanted
    scaler = torch.amp.GradScaler(device.torch.type, enabled=name == "fp16")
    return Precision(name, device.torch.type, scaler)
