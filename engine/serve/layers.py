"""What goes on in every layer for one image, as numbers, and one layer drawn.

A layer is a module that does its work itself: none of the modules inside it ran. What a network does between its
modules (adding a shortcut, flattening) is no layer. Activations are reduced to numbers as they appear and let go.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable
from typing import Any, TypeAlias, cast

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor, nn

from engine.predict.session import Session
from engine.serve.drawing import grid_of_tokens, tiled
from wire.errors import NotFound
from wire.serving import MAX_TILES, N_HISTOGRAM_BINS, LayerFacts, TilesOf, Values

_Take: TypeAlias = Callable[[str, nn.Module, Tensor], None]


def layers_of(session: Session, pixels_HWC: NDArray[np.uint8]) -> tuple[tuple[LayerFacts, ...], Tensor]:
    """Facts of every layer in the order of the work, and the network's outputs.

    Shapes:
        pixels as ``Session.pixels`` gives them; outputs (K,).
    """
    facts: list[LayerFacts] = []

    def take(name: str, module: nn.Module, output: Tensor) -> None:
        weight = _weight(module)
        facts.append(
            LayerFacts(
                name=name,
                type=type(module).__name__,
                n_parameters=sum(parameter.numel() for parameter in module.parameters()),
                activations=values_of(output[0]),
                weights=None if weight is None else values_of(weight),
                has_activation_tiles=_maps(output) is not None,
                has_weight_tiles=weight is not None and weight.ndim == 4,
            )
        )

    logits_K = _run(session, pixels_HWC, take)
    return tuple(facts), logits_K


def layer_tiles(session: Session, pixels_HWC: NDArray[np.uint8], layer: str, what: TilesOf) -> Image.Image:
    """One layer drawn: a tile for each channel of its activations, or for each kernel; at most ``MAX_TILES``.

    Raises:
        NotFound: there is no such layer, or nothing in it that could be drawn.
    """
    found: list[NDArray[np.float32] | None] = []

    def take(name: str, module: nn.Module, output: Tensor) -> None:
        if name == layer:
            found.append(_maps(output) if what == "activations" else _kernels(module))

    _run(session, pixels_HWC, take)
    if not found:
        raise NotFound(f"The network has no layer {layer!r}.", hint="Choose one from the list of its layers.")
    if found[0] is None:
        raise NotFound(f"The {what} of the layer {layer!r} are no pictures.", hint="Look at their histogram.")
    return tiled(found[0])


def values_of(values: Tensor) -> Values:
    """Mean, spread and histogram over all that is finite."""
    flat_N = values.detach().float().flatten()
    finite_N = flat_N[flat_N.isfinite()]
    shape, n_nonfinite = tuple(values.shape), flat_N.numel() - finite_N.numel()
    if not finite_N.numel():
        return Values(shape=shape, n_nonfinite=n_nonfinite, mean=None, std=None, min=None, max=None)
    low, high = float(finite_N.min()), float(finite_N.max())
    mean, std = float(finite_N.double().mean()), float(finite_N.double().std(correction=0))
    if high > low:
        counts = torch.histc(finite_N, bins=N_HISTOGRAM_BINS, min=low, max=high).int().tolist()
    else:  # all are the same: torch would widen the range
        counts = [finite_N.numel(), *([0] * (N_HISTOGRAM_BINS - 1))]
    return Values(shape=shape, n_nonfinite=n_nonfinite, mean=mean, std=std, min=low, max=high, histogram=tuple(counts))


def _run(session: Session, pixels_HWC: NDArray[np.uint8], take: _Take) -> Tensor:
    """Show the network the image and call ``take`` for every layer that worked."""
    watch = _Watch(take)
    network = session.network
    hooks: list[Any] = []
    for name, module in network.named_modules():
        hooks += [
            module.register_forward_pre_hook(watch.begins),
            module.register_forward_hook(watch.ends(name or "network")),
        ]
    try:
        with torch.inference_mode():
            return cast(Tensor, network(session.normalised(pixels_HWC[None]))[0].float())
    finally:
        for hook in hooks:
            hook.remove()


class _Watch:
    """Tells layers from what only contains them."""

    def __init__(self, take: _Take) -> None:
        self._take = take
        self._n_inside = [0]
        self._n_runs: dict[str, int] = defaultdict(int)

    def begins(self, _module: nn.Module, _inputs: Any) -> None:
        self._n_inside.append(0)

    def ends(self, name: str) -> Any:
        def end(module: nn.Module, _inputs: Any, output: Any) -> None:
            n_inside = self._n_inside.pop()
            self._n_inside[-1] += n_inside + 1
            value = output[0] if isinstance(output, tuple) else output
            if n_inside == 0 and isinstance(value, Tensor):
                self._n_runs[name] += 1
                n_runs = self._n_runs[name]
                # An activation is often one module that is used in several places.
                self._take(name if n_runs == 1 else f"{name} ({n_runs})", module, value)

        return end


def _weight(module: nn.Module) -> Tensor | None:
    """Its weights proper; of a module with several tables, the largest."""
    parameters = dict(module.named_parameters())
    if "weight" in parameters:
        return parameters["weight"].detach()
    return max(parameters.values(), key=lambda each: each.numel(), default=cast(Any, None))


def _maps(output: Tensor) -> NDArray[np.float32] | None:
    """Channels as pictures; None where the layer's output has no places."""
    if output.ndim == 3 and (side := math.isqrt(output.shape[1])) > 1 and output.shape[1] - side**2 in (0, 1):
        output = grid_of_tokens(output)
    if output.ndim != 4 or max(output.shape[2:]) == 1:
        return None
    return output[0, :MAX_TILES, :, :, None].detach().float().contiguous().numpy()


def _kernels(module: nn.Module) -> NDArray[np.float32] | None:
    """Kernels as pictures: in colour where the layer looks at colours, else one for each pair of channels."""
    weight = _weight(module)
    if weight is None or weight.ndim != 4:
        return None
    weight_OIHW = weight.float()
    if weight_OIHW.shape[1] == 3:
        return weight_OIHW[:MAX_TILES].permute(0, 2, 3, 1).contiguous().numpy()
    return weight_OIHW.flatten(0, 1)[:MAX_TILES, :, :, None].contiguous().numpy()
