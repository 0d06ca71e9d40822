"""Weights of one network into another that differs in its head, its input channels or its image size."""

from __future__ import annotations

from torch import nn

from engine.models.architecture import Architecture, State
from wire.errors import WeightsMismatch

_NAMED_IN_MESSAGE = 3


def load_weights(network: nn.Module, state: State, architecture: Architecture, *, keep_head: bool, origin: str) -> None:
    """Fill ``network`` from ``state``, leaving the head as it was drawn unless ``keep_head``.

    Args:
        network: as drawn; what it does not take from ``state`` stays.
        state: as the publisher or an earlier run made it.
        architecture: says which entries belong to the head and how others are bent to fit.
        keep_head: whether the state's outputs mean the same classes.
        origin: names the state's source in messages.

    Raises:
        WeightsMismatch: entries are missing, left over or of another shape; the first of them are named.
    """
    dropped = architecture.dropped_prefixes + (() if keep_head else architecture.head_prefixes)
    state = {name: value for name, value in state.items() if not name.startswith(dropped)}
    state = _with_channels_of(network, architecture.fit(state, network), f"{architecture.first_conv}.weight")
    expected = {name: value for name, value in network.state_dict().items() if not name.startswith(dropped)}
    missing = [f"{name} is missing" for name in expected if name not in state]
    surplus = [f"{name} has no place" for name in state if name not in expected]
    reshaped = [
        f"{name} is {tuple(state[name].shape)}, not {tuple(value.shape)}"
        for name, value in expected.items()
        if name in state and state[name].shape != value.shape
    ]
    if problems := missing + surplus + reshaped:
        more = f" and {len(problems) - _NAMED_IN_MESSAGE} more" if len(problems) > _NAMED_IN_MESSAGE else ""
        raise WeightsMismatch(
            f"The weights of {origin} do not fit the network: {'; '.join(problems[:_NAMED_IN_MESSAGE])}{more}.",
            hint="Choose the model that the weights were made for.",
        )
    network.load_state_dict(state, strict=False)


def _with_channels_of(network: nn.Module, state: State, name: str) -> State:
    """Make colour weights grey by their sum, or grey ones colour by equal shares: on grey images nothing changes."""
    wanted = int(network.get_parameter(name).shape[1])
    if name not in state or state[name].shape[1] == wanted:
        return state
    weight = state[name]
    if wanted == 1:
        weight = weight.sum(dim=1, keepdim=True)
    elif weight.shape[1] == 1:
        weight = weight.expand(-1, wanted, -1, -1) / wanted
    return {**state, name: weight}
