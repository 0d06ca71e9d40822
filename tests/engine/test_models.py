from __future__ import annotations

import pytest
import torch

from engine.catalog import model_cards
from engine.models.architecture import replace_first_conv
from engine.models.lenet.card import LeNetOptions
from engine.models.transfer import load_weights
from tests.kits.model_kit import ModelKit
from wire.errors import WeightsMismatch

pytestmark = pytest.mark.slow


class TestLeNet5(ModelKit):
    name = "lenet5"

    def test_the_papers_activation_can_be_had(self):
        network = self.architecture.build(
            n_classes=3, in_channels=1, image_px=32, options=LeNetOptions(activation="tanh")
        )
        kinds = {type(module) for module in network.modules()}
        assert torch.nn.Tanh in kinds
        assert torch.nn.ReLU not in kinds

    def test_a_colour_network_sees_grey_as_the_grey_one_it_began_from(self):
        grey, colour = self.drawn(in_channels=1).eval(), self.blank().eval()
        load_weights(colour, grey.state_dict(), self.architecture, keep_head=True, origin="grey")
        image_BCHW = self.images(in_channels=1)
        torch.testing.assert_close(colour(image_BCHW.expand(-1, 3, -1, -1)), grey(image_BCHW))

    def test_its_size_is_the_papers(self):
        # C1 156 and C5 48,120 as the paper counts them; C3 is fully connected here (2,416), pooling has no weights.
        network = self.blank(n_classes=10, in_channels=1)
        sizes = [
            sum(parameter.numel() for parameter in layer.parameters())
            for layer in network.modules()
            if isinstance(layer, torch.nn.Conv2d | torch.nn.Linear)
        ]
        assert sizes == [156, 2_416, 48_120, 10_164, 850]


class TestResNet20(ModelKit):
    name = "resnet20"

    def test_its_size_is_the_papers(self):
        network = self.blank(n_classes=10)
        n_layers = sum(isinstance(module, torch.nn.Conv2d | torch.nn.Linear) for module in network.modules())
        assert n_layers == 20
        assert round(sum(parameter.numel() for parameter in network.parameters()) / 1e6, 2) == 0.27

    def test_a_shortcut_that_grows_pads_zeros_on_both_sides(self):
        block = self.drawn().get_submodule("blocks.3")
        for parameter in block.parameters():
            torch.nn.init.zeros_(parameter)
        image_BCHW = torch.rand(1, 16, 4, 4)
        out_BCHW = block.eval()(image_BCHW)
        assert torch.equal(out_BCHW[:, 8:24], image_BCHW[:, :, ::2, ::2])
        assert not out_BCHW[:, :8].any()
        assert not out_BCHW[:, 24:].any()


class TestAlexNet(ModelKit):
    name = "alexnet"


class TestGoogLeNet(ModelKit):
    name = "googlenet"

    def test_the_auxiliary_heads_of_a_published_file_are_left_out(self):
        network = self.blank()
        state = {**network.state_dict(), "aux1.fc1.weight": torch.zeros(3, 3), "aux2.fc2.bias": torch.zeros(3)}
        load_weights(network, state, self.architecture, keep_head=False, origin="googlenet.pth")
        state["aux3.bias"] = torch.zeros(3)
        with pytest.raises(WeightsMismatch, match=r"aux3\.bias has no place"):
            load_weights(network, state, self.architecture, keep_head=False, origin="googlenet.pth")


class TestResNet18(ModelKit):
    name = "resnet18"


class TestResNet50(ModelKit):
    name = "resnet50"


class TestMobileNetV3Small(ModelKit):
    name = "mobilenet_v3_small"


class TestEfficientNetB0(ModelKit):
    name = "efficientnet_b0"


class TestConvNeXtTiny(ModelKit):
    name = "convnext_tiny"


class TestViTSmall(ModelKit):
    name = "vit_small"

    @pytest.mark.parametrize("image_px", [32, 48, 96])
    def test_position_embeddings_are_resampled_to_the_image(self, image_px):
        source, target = self.blank(image_px=64), self.blank(image_px=image_px)
        with torch.no_grad():
            source.get_parameter("pos_embed").fill_(0.5)
        load_weights(target, source.state_dict(), self.architecture, keep_head=True, origin="64 px")
        rows = target.get_parameter("pos_embed")
        assert rows.shape[1] == (image_px // 16) ** 2 + 1
        torch.testing.assert_close(rows, torch.full_like(rows, 0.5))


class TestSwinTiny(ModelKit):
    name = "swin_tiny"

    def test_maps_that_are_no_whole_windows_are_padded(self):
        network = self.drawn().eval()
        with torch.no_grad():
            for image_px in (56, 60, 112):
                assert network(torch.zeros(1, 3, image_px, image_px)).shape == (1, 5)


def test_every_model_has_a_kit():
    assert {kit.name for kit in ModelKit.__subclasses__()} >= set(model_cards())


def test_a_fresh_grey_network_is_the_fresh_colour_one_with_its_colours_summed():
    networks = []
    for in_channels in (3, 1):
        torch.manual_seed(0)
        architecture = model_cards()["lenet5"].load()
        networks.append(
            architecture.build(n_classes=3, in_channels=in_channels, image_px=32, options=LeNetOptions()).eval()
        )
    image_BCHW = torch.rand(2, 1, 32, 32)
    torch.testing.assert_close(networks[1](image_BCHW), networks[0](image_BCHW.expand(-1, 3, -1, -1)))


def test_only_a_convolution_can_be_made_grey():
    with pytest.raises(TypeError, match="0 is a Linear, not a Conv2d"):
        replace_first_conv(torch.nn.Sequential(torch.nn.Linear(2, 2)), "0")
