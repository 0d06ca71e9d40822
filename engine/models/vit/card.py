"""Dosovitskiy et al.: An image is worth 16x16 words, ICLR 2021 (arXiv 2010.11929)."""

from __future__ import annotations

from wire.cards import ModelCard, WeightsCard

CARD = ModelCard(
    name="vit_small",
    label="ViT-Small/16",
    summary="A vision transformer on patches of 16 px; start it from published weights.",
    implementation="engine.models.vit.model:VIT_SMALL",
    family="ViT",
    year=2020,
    min_px=32,
    default_px=224,
    n_parameters=22_050_664,
    n_flops=9_197_764_608,
    code_licence="Apache-2.0 (timm)",
    weights=(
        WeightsCard(
            name="augreg_in21k_ft_in1k",
            file="vit_small_patch16_224.augreg_in21k_ft_in1k.safetensors",
            url="https://huggingface.co/timm/vit_small_patch16_224.augreg_in21k_ft_in1k/resolve/main/model.safetensors",
            sha256="",
            source="timm",
            licence="Apache-2.0",
            trained_on="ImageNet-21k, then ImageNet-1k",
            top1_pct=81.386,
        ),
    ),
)
