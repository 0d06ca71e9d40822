"""What every network must do. Subclass ``ModelKit`` beside the family's own tests:

    class TestLeNet5(ModelKit):
        name = "lenet5"

It proves that the card tells the truth, and that the network trains, in colour and in grey, at its smallest size.
"""

from __future__ import annotations

from typing import ClassVar

import pytest
import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from engine.catalog import model_cards
from engine.models.architecture import Architecture
from engine.models.transfer import load_weights
from wire.cards import ModelCard
from wire.errors import WeightsMismatch


class ModelKit:
    name: ClassVar[str]

    @property
    def card(self) -> ModelCard:
        return model_cards()[self.name]

    @property
    def architecture(self) -> Architecture:
        implementation = self.card.load()
        assert isinstance(implementation, Architecture)
        return implementation

    def build(self, *, n_classes: int = 5, in_channels: int = 3, image_px: int | None = None) -> nn.Module:
        torch.manual_seed(0)
        return self.architecture.build(
            n_classes=n_classes,
            in_channels=in_channels,
            image_px=image_px or self.card.min_px,
            options=self.card.options(),
        )

    def images(self, *, in_channels: int = 3, image_px: int | None = None) -> Tensor:
        px = image_px or self.card.min_px
        return torch.randn((2, in_channels, px, px), generator=torch.Generator().manual_seed(1))

    def test_the_counts_on_the_card_are_true(self):
        card = self.card
        with torch.device("meta"):
            network = self.build(n_classes=1000, image_px=card.default_px).eval()
            image_BCHW = torch.empty(1, 3, card.default_px, card.default_px)
        with torch.no_grad(), FlopCounterMode(display=False) as counter:
            network(image_BCHW)
        n_parameters = sum(parameter.numel() for parameter in network.parameters())
        assert (n_parameters, counter.get_total_flops()) == (card.n_parameters, card.n_flops)

    @pytest.mark.parametrize("in_channels", [1, 3])
    def test_every_weight_learns_from_the_smallest_image(self, in_channels):
        network = self.build(in_channels=in_channels).train()
        logits_BK = network(self.images(in_channels=in_channels))
        assert logits_BK.shape == (2, 5)
        nn.functional.cross_entropy(logits_BK, torch.tensor([0, 1])).backward()
        assert [name for name, parameter in network.named_parameters() if parameter.grad is None] == []

    def test_images_above_the_smallest_size_work(self):
        px = self.card.min_px + 9
        assert self.build(image_px=px).eval()(self.images(image_px=px)).shape == (2, 5)

    def test_channels_last_gives_the_same(self):
        network, images_BCHW = self.build().eval(), self.images()
        with torch.no_grad():
            plain_BK = network(images_BCHW)
            network = network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
            last_BK = network(images_BCHW.contiguous(memory_format=torch.channels_last))
        torch.testing.assert_close(last_BK, plain_BK, rtol=1e-3, atol=1e-4)

    def test_equal_seeds_give_equal_weights(self):
        first, second = self.build().state_dict(), self.build().state_dict()
        assert all(torch.equal(first[name], second[name]) for name in first)

    def test_colour_weights_see_a_grey_image_as_before(self):
        colour, grey = self.build().eval(), self.build(in_channels=1).eval()
        torch.nn.init.zeros_(grey.get_parameter(f"{self.architecture.first_conv}.weight"))
        load_weights(grey, colour.state_dict(), self.architecture, keep_head=True, origin="colour")
        image_BCHW = self.images(in_channels=1)
        with torch.no_grad():
            torch.testing.assert_close(grey(image_BCHW), colour(image_BCHW.expand(-1, 3, -1, -1)), rtol=1e-3, atol=1e-4)

    def test_another_head_is_made_anew_and_the_rest_kept(self):
        source, target = self.build(n_classes=9), self.build(n_classes=4)
        heads = self.architecture.head_prefixes
        drawn = {name: value.clone() for name, value in target.state_dict().items() if name.startswith(heads)}
        with torch.no_grad():
            for parameter in source.parameters():
                parameter.fill_(0.125)
        load_weights(target, source.state_dict(), self.architecture, keep_head=False, origin="nine classes")
        assert drawn
        for name, parameter in target.named_parameters():
            expected = drawn[name] if name.startswith(heads) else torch.full_like(parameter, 0.125)
            assert torch.equal(parameter, expected), name

    def test_weights_of_something_else_are_refused_by_name(self):
        state = self.build().state_dict()
        first = next(name for name in state if not name.startswith(self.architecture.head_prefixes))
        state["elsewhere.weight"] = state.pop(first)
        with pytest.raises(WeightsMismatch, match=f"{first} is missing; elsewhere.weight has no place"):
            load_weights(self.build(), state, self.architecture, keep_head=True, origin="elsewhere")
