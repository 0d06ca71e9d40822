from __future__ import annotations

from typing import assert_never

import torch
from torch import nn
from torch.optim import SGD, AdamW, Optimizer

from wire.specs import TrainOptions


def make_optimiser(network: nn.Module, options: TrainOptions, device: torch.device) -> Optimizer:
    """The optimiser of the options; weight decay only where there is a product to decay, not on norms and biases."""
    decayed, free = _split(network)
    groups = [
        {"params": decayed, "weight_decay": options.weight_decay},
        {"params": free, "weight_decay": 0.0},
    ]
    rate, momentum, fused = options.learning_rate, options.momentum, device.type == "cuda"
    match options.optimiser:
        case "sgd":
            return SGD(groups, lr=rate, momentum=momentum, fused=fused)
        case "nesterov":
            # Nesterov's step is not defined without momentum; it then is plain SGD.
            return SGD(groups, lr=rate, momentum=momentum, nesterov=momentum > 0, fused=fused)
        case "adamw":
            return AdamW(groups, lr=rate, fused=fused)
        case _:
            assert_never(options.optimiser)


def set_learning_rate(optimiser: Optimizer, rate: float) -> None:
    for group in optimiser.param_groups:
        group["lr"] = rate


def _split(network: nn.Module) -> tuple[list[nn.Parameter], list[nn.Parameter]]:
    # Transformers of timm name their embeddings here, which are no products either.
    names = getattr(network, "no_weight_decay", None)
    named_free: set[str] = names() if callable(names) else set()
    decayed, free = [], []
    for name, parameter in network.named_parameters():
        if parameter.ndim <= 1 or name in named_free:
            free.append(parameter)
        else:
            decayed.append(parameter)
    return decayed, free
