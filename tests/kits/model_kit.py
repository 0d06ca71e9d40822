"""What every network must do. Subclass ``ModelKit`` beside the family's own tests:

    class TestLeNet5(ModelKit):
        name = "lenet5"

It proves that the card tells the truth, and that the network trains, in colour and in grey, at its smallest size.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any, ClassVar, cast

import pytest
import torch
import torch._inductor.utils  # the counter imports it, and it sets a variable: not inside a test
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from engine.catalog import model_cards
from engine.models.architecture import Architecture, State
from engine.models.transfer import load_weights
from wire.cards import ModelCard
from wire.errors import WeightsMismatch


class ModelKit:
    name: ClassVar[str]

    @pytest.fixture(autouse=True)
    def _one_thread(self) -> Iterator[None]:
        """On two small images threads do little but wait for each other."""
        n_threads = torch.get_num_threads()
        torch.set_num_threads(1)
        yield
        torch.set_num_threads(n_threads)

    @property
    def card(self) -> ModelCard:
        return model_cards()[self.name]

    @property
    def architecture(self) -> Architecture:
        return _architecture(self.name)

    def blank(self, *, n_classes: int = 5, in_channels: int = 3, image_px: int | None = None) -> nn.Module:
        """The network without drawn weights, which for the large ones takes seconds."""
        with torch.device("meta"):
            network = _built(self.name, n_classes=n_classes, in_channels=in_channels, image_px=image_px)
        return network.to_empty(device="cpu")

    def drawn(self, *, in_channels: int = 3) -> nn.Module:
        """The network at its smallest size with five classes and weights as a training draws them."""
        network = self.blank(in_channels=in_channels)
        load_weights(network, _drawn_state(self.name), self.architecture, keep_head=True, origin="the draw")
        return network

    def images(self, *, in_channels: int = 3) -> Tensor:
        shape = (2, in_channels, self.card.min_px, self.card.min_px)
        return torch.randn(shape, generator=torch.Generator().manual_seed(1))

    def test_the_counts_on_the_card_are_true(self):
        card = self.card
        with torch.device("meta"), torch.no_grad(), FlopCounterMode(display=False) as counter:
            network = _built(self.name, n_classes=1000, image_px=card.default_px).eval()
            network(torch.empty(1, 3, card.default_px, card.default_px))
        n_parameters = sum(parameter.numel() for parameter in network.parameters())
        assert (n_parameters, counter.get_total_flops()) == (card.n_parameters, card.n_flops)

    @pytest.mark.parametrize("in_channels", [1, 3])
    def test_every_weight_learns_from_the_smallest_image(self, in_channels):
        network = self.drawn(in_channels=in_channels).train()
        logits_BK = network(self.images(in_channels=in_channels))
        assert logits_BK.shape == (2, 5)
        torch.autograd.backward(nn.functional.cross_entropy(logits_BK, torch.tensor([0, 1])))
        assert [name for name, parameter in network.named_parameters() if parameter.grad is None] == []

    def test_images_of_any_larger_size_work(self):
        for image_px in (self.card.min_px + 1, self.card.min_px + 9):
            with torch.device("meta"):
                network = _built(self.name, n_classes=5, image_px=image_px).eval()
                assert network(torch.empty(2, 3, image_px, image_px)).shape == (2, 5)

    def test_channels_last_gives_the_same(self):
        network, images_BCHW = self.drawn().eval(), self.images()
        with torch.no_grad():
            plain_BK = network(images_BCHW)
            network = cast(Any, network).to(memory_format=torch.channels_last)
            last_BK = network(images_BCHW.contiguous(memory_format=torch.channels_last))
        torch.testing.assert_close(last_BK, plain_BK, rtol=1e-3, atol=1e-4)

    def test_a_grey_network_sees_grey_as_the_colour_network_does(self):
        colour, grey = self.drawn().eval(), self.drawn(in_channels=1).eval()
        image_BCHW = self.images(in_channels=1)
        with torch.no_grad():
            torch.testing.assert_close(grey(image_BCHW), colour(image_BCHW.expand(-1, 3, -1, -1)), rtol=1e-3, atol=1e-4)

    def test_another_head_is_made_anew_and_the_rest_kept(self):
        source, target = self.blank(n_classes=9), self.blank(n_classes=4)
        with torch.no_grad():
            for parameter in source.parameters():
                parameter.fill_(0.125)
            for parameter in target.parameters():
                parameter.fill_(0.5)
        load_weights(target, source.state_dict(), self.architecture, keep_head=False, origin="nine classes")
        heads = self.architecture.head_prefixes
        values = {
            name: (parameter.min().item(), parameter.max().item()) for name, parameter in target.named_parameters()
        }
        assert values == {name: (0.5, 0.5) if name.startswith(heads) else (0.125, 0.125) for name in values}
        assert any(name.startswith(heads) for name in values)

    def test_weights_of_something_else_are_refused_by_name(self):
        network = self.blank()
        state = network.state_dict()
        first = next(name for name in state if not name.startswith(self.architecture.head_prefixes))
        state["elsewhere.weight"] = state.pop(first)
        with pytest.raises(WeightsMismatch, match=f"{first} is missing; elsewhere.weight has no place"):
            load_weights(network, state, self.architecture, keep_head=True, origin="elsewhere")


def _architecture(name: str) -> Architecture:
    implementation = model_cards()[name].load()
    assert isinstance(implementation, Architecture)
    return implementation


def _built(name: str, *, n_classes: int, in_channels: int = 3, image_px: int | None = None) -> nn.Module:
    card = model_cards()[name]
    return _architecture(name).build(
        n_classes=n_classes, in_channels=in_channels, image_px=image_px or card.min_px, options=card.options()
    )


@cache
def _drawn_state(name: str) -> State:
    torch.manual_seed(0)
    return _built(name, n_classes=5).state_dict()
