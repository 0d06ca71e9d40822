from __future__ import annotations

import subprocess
import sys

import pytest

from engine.catalog import find_card, model_cards, task_cards
from wire.errors import SpecInvalid

LOAD = """
import sys
from engine.catalog import format_cards, model_cards, sample_cards, task_cards
cards = [card for kind in (format_cards, model_cards, sample_cards, task_cards) for card in kind().values()]
assert all(card.options.model_json_schema()["type"] == "object" for card in cards)
print(sorted({"torch", "torchvision", "timm", "numpy", "PIL"} & sys.modules.keys()))
"""


def test_the_catalogue_loads_nothing_heavy():
    loaded = subprocess.run([sys.executable, "-c", LOAD], capture_output=True, text=True, check=True)
    assert loaded.stdout.strip() == "[]"


def test_the_models_on_offer():
    assert list(model_cards()) == [
        "lenet5", "resnet20", "alexnet", "googlenet", "resnet18", "resnet50",
        "mobilenet_v3_small", "efficientnet_b0", "convnext_tiny", "vit_small", "swin_tiny",
    ]  # fmt: skip


@pytest.mark.parametrize("card", model_cards().values(), ids=lambda card: card.name)
def test_a_model_card_says_what_one_must_know(card):
    assert card.label
    assert card.summary
    assert card.code_licence
    assert card.min_px <= card.default_px
    assert len({weights.name for weights in card.weights}) == len(card.weights)
    for weights in card.weights:
        assert weights.url.startswith("https://")
        assert weights.licence
        assert weights.top1_pct
        # The empty hash is for publishers that state none.
        assert weights.sha256 == "" or len(weights.sha256) >= 8


def test_a_task_chooses_its_best_by_a_series_of_its_own():
    card = task_cards()["classification"]
    assert (card.main_series, card.main_better) == ("val/top1", "higher")


def test_a_name_that_is_unknown_is_answered_with_those_there_are():
    with pytest.raises(SpecInvalid, match="no model called 'lenet'") as refused:
        find_card(model_cards(), "lenet", what="model")
    assert "lenet5" in refused.value.hint
