"""Liu et al.: Swin transformer: hierarchical vision transformer using shifted windows, ICCV 2021 (arXiv 2103.14030)."""

from __future__ import annotations

from engine.models.published import torchvision_weights
from wire.cards import ModelCard

CARD = ModelCard(
    name="swin_tiny",
    label="Swin-T",
    summary="A transformer that looks through windows of 7 by 7 patches; start it from published weights.",
    implementation="engine.models.swin.model:SWIN_TINY",
    family="Swin",
    year=2021,
    min_px=32,
    default_px=224,
    n_parameters=28_288_354,
    n_flops=8_981_133_312,
    code_licence="BSD-3-Clause (torchvision)",
    weights=(torchvision_weights("swin_t-704ceda3.pth", top1_pct=81.474),),
)
