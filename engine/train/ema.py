"""A moving average of a network's weights: what is validated, saved for use and exported in place of the last ones."""

from __future__ import annotations

from copy import deepcopy

import torch
from torch import Tensor, nn


class Average:
    """A second network whose every weight follows the trained one's, and whose running statistics do too.

    Source: Polyak and Juditsky (1992); the decay grows with the number of updates, so that the first random weights are
    soon forgotten, as in TensorFlow's ``ExponentialMovingAverage``. Statistics of normalisation are averaged as weights
    are, because they belong to them; counters are copied.

    Cost: as much memory as the weights take, and one pass over them a step.
    """

    def __init__(self, network: nn.Module, decay: float) -> None:
        self.network = deepcopy(network).requires_grad_(requires_grad=False).eval()
        self.n_updates = 0
        self._decay = decay
        pairs = list(zip(_tensors(self.network), _tensors(network), strict=True))
        self._mine = [mine for mine, _ in pairs if mine.is_floating_point()]
        self._theirs = [theirs for _, theirs in pairs if theirs.is_floating_point()]
        self._counters = [pair for pair in pairs if not pair[0].is_floating_point()]

    @torch.no_grad()
    def update(self) -> None:
        """Follow by one step. The trained network's tensors must be those it had when this was made."""
        self.n_updates += 1
        decay = min(self._decay, (1 + self.n_updates) / (10 + self.n_updates))
        torch._foreach_lerp_(self._mine, self._theirs, 1 - decay)
        for mine, theirs in self._counters:
            mine.copy_(theirs)


def _tensors(network: nn.Module) -> list[Tensor]:
    return [*(parameter.detach() for parameter in network.parameters()), *network.buffers()]
