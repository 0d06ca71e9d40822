"""Where a network looked: Grad-CAM at the last layer that still knows places.

Source: Selvaraju et al., Grad-CAM (2017), by the package ``grad-cam``. Which layer that is, is found by looking: the
last module whose activations lie on a grid and move the output. Grids are maps (B, C, H, W) and the patches of a
transformer (B, 1 + H * W, C), whose class token has no place and is left out.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from engine.predict.session import Session
from engine.serve.drawing import as_image, grid_of_tokens, overlaid, png
from wire.errors import ActionRefused, SpecInvalid
from wire.serving import Explanation

Reshape: TypeAlias = Callable[[Tensor], Tensor]
_Seen: TypeAlias = list[tuple[str, nn.Module, Tensor]]

_PLACELESS: Final = (nn.AdaptiveAvgPool2d, nn.AdaptiveMaxPool2d, nn.AdaptiveAvgPool1d)
"""They spread what is left of the grid over another one, which adds no place."""


@dataclass(frozen=True, slots=True)
class Target:
    name: str
    module: nn.Module
    reshape: Reshape | None
    """Tokens to a map; None where the activations are one."""


def explain(session: Session, pixels_HWC: NDArray[np.uint8], *, name: str, label: int | None) -> Explanation:
    """The places that speak for ``label``, or for the network's best guess.

    Raises:
        SpecInvalid: the network has no such class.
        ActionRefused: no layer of it has places.
    """
    if label is not None and label >= len(session.classes):
        raise SpecInvalid(
            f"There is no class {label}; the network knows {len(session.classes)}.", hint="Choose one of its classes."
        )
    began_s = time.perf_counter()
    # In fp32 whatever the training's precision: numpy knows no bf16.
    images_BCHW = session.normalised(pixels_HWC[None]).requires_grad_()
    logits_K = _logits(session.network, images_BCHW)
    wanted = int(logits_K.argmax()) if label is None else label
    target = find_target(session.network, images_BCHW, wanted)
    heat_HW = _heat(session.network, target, images_BCHW, wanted)
    seen = as_image(pixels_HWC)
    return Explanation(
        name=name,
        label=wanted,
        class_name=session.classes[wanted],
        probability=float(logits_K.softmax(dim=0)[wanted].nan_to_num()),
        layer=target.name,
        heat=tuple(tuple(round(value, 4) for value in row) for row in heat_HW.tolist()),
        seen_png=png(seen),
        overlay_png=png(overlaid(seen, heat_HW)),
        ms=round((time.perf_counter() - began_s) * 1000, 2),
    )


def find_target(network: nn.Module, images_BCHW: Tensor, label: int) -> Target:
    """The last layer with places whose activations move the output for ``label``.

    Raises:
        ActionRefused: there is none.
    """
    seen: _Seen = []
    hooks = [module.register_forward_hook(_keeper(seen, name)) for name, module in network.named_modules() if name]
    try:
        logits_K = _logits(network, images_BCHW, keeps_gradients=True)
    finally:
        for hook in hooks:
            hook.remove()
    candidates = _on_a_grid(seen)
    outputs = [output for _, _, output, _ in candidates]
    gradients: tuple[Tensor | None, ...] = ()
    if outputs:
        gradients = torch.autograd.grad(logits_K[label], outputs, allow_unused=True)
    for (name, module, _, reshape), gradient in zip(reversed(candidates), reversed(gradients), strict=True):
        if gradient is not None and bool((reshape(gradient) if reshape else gradient).any()):
            return Target(name, module, reshape)
    raise ActionRefused(
        "Grad-CAM cannot explain this network: no layer that knows places moves its output.",
        hint="Train longer or at a larger image size, or look at its layers instead.",
    )


def _keeper(seen: _Seen, name: str) -> Any:
    def keep(module: nn.Module, _: Any, output: Any) -> None:
        if isinstance(output, Tensor) and output.requires_grad:
            seen.append((name, module, output))

    return keep


def _on_a_grid(seen: _Seen) -> list[tuple[str, nn.Module, Tensor, Reshape | None]]:
    """Maps; of a network that works on patches these instead, at the width in which they go from block to block."""
    n_runs = Counter(module for _, module, _ in seen)
    # A module that is used in several places has several activations, and Grad-CAM would mix them.
    once = [(name, module, output) for name, module, output in seen if n_runs[module] == 1]
    tokens = [(name, module, output) for name, module, output in once if _is_patches(output)]
    if tokens:
        width = tokens[0][2].shape[2]
        return [(*each, grid_of_tokens) for each in tokens if each[2].shape[2] == width]
    return [
        (name, module, output, None)
        for name, module, output in once
        if output.ndim == 4 and min(output.shape[2:]) > 1 and not isinstance(module, _PLACELESS)
    ]


def _is_patches(output: Tensor) -> bool:
    if output.ndim != 3:
        return False
    side = math.isqrt(output.shape[1])
    return side > 1 and output.shape[1] - side**2 in (0, 1)


def _heat(network: nn.Module, target: Target, images_BCHW: Tensor, label: int) -> NDArray[np.float32]:
    """The map at the layer's own coarseness, its highest value 1.

    Shapes:
        returns (H, W).
    """
    from pytorch_grad_cam import GradCAM
    from pytorch_grad_cam.utils.model_targets import ClassifierOutputTarget

    targets = [ClassifierOutputTarget(label)]
    with GradCAM(network, [target.module], reshape_transform=target.reshape) as cam:
        cam(images_BCHW, targets)
        kept = cam.activations_and_grads
        # What the call gives is stretched to the image; the map before that is smaller and says the same.
        activations, gradients = kept.activations[-1].numpy(), kept.gradients[0].numpy()
        heat_HW = cam.get_cam_image(images_BCHW, target.module, targets, activations, gradients)[0]
    heat_HW = np.maximum(np.nan_to_num(heat_HW, nan=0.0, posinf=0.0, neginf=0.0), 0)
    highest = float(heat_HW.max())
    return cast(NDArray[np.float32], (heat_HW / highest if highest else heat_HW).astype(np.float32))


def _logits(network: nn.Module, images_BCHW: Tensor, *, keeps_gradients: bool = False) -> Tensor:
    with torch.set_grad_enabled(keeps_gradients):
        return cast(Tensor, network(images_BCHW)[0].float())
