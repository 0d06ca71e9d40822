"""All generators that a network or an augmentation may draw from, set and carried together."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import torch


def seed_all(seed: int) -> None:
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002 - the global one is what other people's layers draw from
    torch.manual_seed(seed)


def generator_states() -> dict[str, Any]:
    """Where each generator stands, in types that ``torch.load(weights_only=True)`` reads."""
    name, keys, position, has_gauss, gauss = np.random.get_state(legacy=True)  # noqa: NPY002
    version, words, gauss_next = random.getstate()
    return {
        "python": [version, list(words), gauss_next],
        "numpy": [name, np.asarray(keys).tolist(), position, has_gauss, gauss],
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [],
    }


def restore_generators(states: dict[str, Any]) -> None:
    """Continue where ``generator_states`` was taken; GPUs only where there are as many as then."""
    version, words, gauss_next = states["python"]
    random.setstate((version, tuple(words), gauss_next))
    name, keys, position, has_gauss, gauss = states["numpy"]
    np.random.set_state((name, np.array(keys, np.uint32), position, has_gauss, gauss))  # noqa: NPY002
    torch.set_rng_state(states["torch"])
    if torch.cuda.is_available() and len(states["cuda"]) == torch.cuda.device_count():
        torch.cuda.set_rng_state_all(states["cuda"])
