"""Every model of the form can be loaded without Fovea: its weights fit the library's own network."""

from __future__ import annotations

from importlib import import_module

import pytest
import torch

from engine.bundle.networks import NETWORKS, OWN, building
from engine.catalog import model_cards
from tests.kits.exported import write_export_folder
from wire.layout import ExportDir
from wire.specs import Choice

pytestmark = pytest.mark.slow


def test_each_model_of_the_form_is_in_the_table():
    assert set(NETWORKS) == set(model_cards())


@pytest.mark.parametrize("name", NETWORKS)
def test_the_network_is_the_one_that_is_trained(tmp_path, name):
    card = model_cards()[name]
    report = write_export_folder(
        ExportDir(tmp_path / "export"), backend="pytorch", model=Choice(name=name), image_px=card.default_px
    )
    how = building(report)
    network = NETWORKS[name]
    module = import_module(network.source.parent.name.join(("engine.models.", ".network"))) if network.source else None
    assert (how["module"] == OWN) == (module is not None)
    with torch.device("meta"):
        trained = card.load().build(
            n_classes=len(report.classes), in_channels=3, image_px=report.image_px, options=card.options()
        )
        loaded = getattr(module or import_module(how["module"]), how["function"])(**how["arguments"])
    shapes = lambda network: {name: value.shape for name, value in network.state_dict().items()}  # noqa: E731
    assert shapes(loaded) == shapes(trained)
    assert loaded.get_submodule(how["first_conv"]).in_channels == 3
    assert card.load().first_conv == how["first_conv"]


def test_options_of_a_network_of_fovea_reach_it(tmp_path):
    model = Choice(name="lenet5", options={"activation": "tanh"})
    report = write_export_folder(ExportDir(tmp_path / "export"), backend="pytorch", model=model)
    how = building(report)
    network = import_module("engine.models.lenet.network").lenet5(**how["arguments"])
    assert "Tanh" in repr(network)


def test_a_model_from_elsewhere_has_no_recipe(tmp_path):
    report = write_export_folder(ExportDir(tmp_path / "export"), backend="pytorch", model=Choice(name="theirs"))
    assert building(report) is None
