"""The weights themselves: what every other target is held against."""

from __future__ import annotations

from wire.cards import BackendCard

CARD = BackendCard(
    name="pytorch",
    label="PyTorch weights",
    summary="One safetensors file, and ten lines that load it. No code is run by reading it.",
    implementation="engine.export.backends.pytorch.backend:PyTorchBackend",
    precisions=("fp32",),
    requires=("torch", "safetensors"),
    licence="BSD-3-Clause (PyTorch), Apache-2.0 (safetensors)",
)
