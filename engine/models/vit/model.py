from __future__ import annotations

from pydantic import BaseModel
from torch import nn

from engine.models.architecture import Architecture, State


def _build(*, n_classes: int, image_px: int, options: BaseModel) -> nn.Module:
    from timm import create_model

    return create_model("vit_small_patch16_224", pretrained=False, num_classes=n_classes, img_size=image_px)


def _fit(state: State, network: nn.Module) -> State:
    """Resample the position embedding, which has one row for each patch after the class token's own."""
    from timm.layers.pos_embed import resample_abs_pos_embed

    state = dict(state)
    n_rows = int(network.get_parameter("pos_embed").shape[1])
    if "pos_embed" in state and state["pos_embed"].shape[1] != n_rows:
        n_patches_side = round((n_rows - 1) ** 0.5)
        state["pos_embed"] = resample_abs_pos_embed(
            state["pos_embed"], [n_patches_side, n_patches_side], num_prefix_tokens=1
        )
    return state


VIT_SMALL = Architecture(
    build_rgb=_build,
    head_prefixes=("head.",),
    first_conv="patch_embed.proj",
    fit=_fit,
    published_mean=(0.5, 0.5, 0.5),
    published_std=(0.5, 0.5, 0.5),
)
