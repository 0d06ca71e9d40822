from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from engine.export import sensitivity
from engine.export.backends import BuildStopped
from engine.export.quantise import find_ranges, open_quietly, quantised
from engine.export.sensitivity import Judged, repaired
from tests.kits.float_network import FAR_LAYER, LAYERS, float_network, pixels
from wire.errors import SpecInvalid

pytestmark = pytest.mark.slow

GOING_ON = SimpleNamespace(asked=False)


@pytest.fixture(scope="module")
def far():
    """Something ahead of one layer gives a channel 2,000 times as large as the others."""
    return float_network(far=2000.0)


@pytest.fixture(scope="module")
def ranges(far):
    return {signed: find_ranges(far, [pixels(64, seed=1)], signed=signed) for signed in (True, False)}


class _Judge:
    """Wants the answers of the float network to nearly all images."""

    def __init__(self, network, least=0.95):
        self._images = pixels(160, seed=21)
        self._expected = self._answers(network)
        self._least = least
        self.said: list[float] = []

    def __call__(self, model):
        agreement = float((self._answers(model) == self._expected).mean())
        self.said.append(agreement)
        return Judged(agreement >= self._least, f"agreement {agreement:.3f}")

    def _answers(self, model):
        return open_quietly(model).run(["logits"], {"pixels": self._images})[0].argmax(1)


def _repaired(network, ranges, judge, *, asked=(), on_progress=lambda _done, _of: None, stop=GOING_ON):
    return repaired(network, ranges, asked, judge, [pixels(16, seed=31), pixels(16, seed=32)], on_progress, stop)


@pytest.mark.parametrize("signed", [True, False], ids=["signed", "unsigned"])
def test_the_layer_that_hurts_and_no_other_is_put_back(far, ranges, signed):
    judge = _Judge(far)
    model, kept = _repaired(far, ranges[signed], judge)
    assert judge.said[0] < 0.9, "all in INT8 must fail, or the test shows nothing"
    assert [(layer.name, layer.why) for layer in kept] == [(FAR_LAYER, "hurt")]
    assert kept[0].agreement is not None
    assert kept[0].agreement < 0.9
    assert judge(model).holds
    assert model == quantised(far, ranges[signed], [FAR_LAYER])


def test_what_holds_is_left_as_it_is():
    def unread():
        raise AssertionError("probed without need")
        yield

    network = float_network()
    ranges = find_ranges(network, [pixels(64, seed=1)])
    told: list[tuple[int, int]] = []
    model, kept = repaired(
        network, ranges, (), _Judge(network), unread(), lambda done, of: told.append((done, of)), GOING_ON
    )
    assert not kept
    assert model == quantised(network, ranges)
    assert len(told) == 1


def test_layers_asked_for_come_first(far, ranges):
    model, kept = _repaired(far, ranges[True], _Judge(far), asked=["head", "blocks.0."])
    assert [(layer.name, layer.why) for layer in kept] == [
        ("blocks.0.conv1", "asked"),
        ("blocks.0.conv2", "asked"),
        ("head", "asked"),
        (FAR_LAYER, "hurt"),
    ]
    assert model == quantised(far, ranges[True], [layer.name for layer in kept])


def test_an_unknown_layer_is_refused_before_any_work(far, ranges):
    with pytest.raises(SpecInvalid, match=r"blocks\.7"):
        _repaired(far, ranges[True], _Judge(far), asked=["blocks.7."])


def test_what_never_holds_ends_in_float(far, ranges, caplog):
    caplog.set_level("INFO")
    model, kept = _repaired(far, ranges[True], lambda _model: Judged(holds=False, says="never"))
    assert {layer.name for layer in kept} == {*LAYERS}
    assert kept[0].name == FAR_LAYER
    assert model == far
    assert "All layers are back in float" in caplog.text


def test_a_network_of_one_free_layer(far, ranges):
    others = [layer for layer in LAYERS if layer != FAR_LAYER]
    model, kept = _repaired(far, ranges[True], _Judge(far), asked=others)
    assert kept[-1].name == FAR_LAYER
    assert model == far


def test_progress_never_goes_past_its_end(far, ranges):
    told: list[tuple[int, int]] = []
    _repaired(
        *(far, ranges[True], lambda _model: Judged(holds=False, says="never")),
        on_progress=lambda done, of: told.append((done, of)),
    )
    assert [done for done, _ in told] == [*range(1, len(told) + 1)]
    assert {of for _, of in told} == {told[0][1]}
    assert told[-1][0] <= told[-1][1] <= 2 * len(LAYERS)


@pytest.mark.parametrize("n_steps", [0, 1, 5])
def test_stops_between_two_models(far, ranges, n_steps):
    stop = SimpleNamespace(asked=n_steps == 0)
    told: list[int] = []

    def on_progress(done, _of):
        told.append(done)
        stop.asked = done == n_steps

    with pytest.raises(BuildStopped):
        _repaired(far, ranges[True], _Judge(far), on_progress=on_progress, stop=stop)
    assert len(told) == n_steps


@pytest.mark.parametrize("n_most", [1, 2, 3, 8, 54, 82])
def test_the_least_number_is_found_in_few_steps(n_most):
    for least in range(1, n_most + 1):
        asked: list[int] = []

        def holds(n, least=least, asked=asked):
            asked.append(n)
            return n >= least

        assert sensitivity._least(n_most, holds) == least
        assert len(asked) == len(set(asked)) <= sensitivity._n_whole(n_most)


def test_many_layers_are_probed_in_groups(far, ranges, monkeypatch):
    """Eight layers and six probes: three groups, of which the worst is opened."""
    monkeypatch.setattr(sensitivity, "MOST_PROBES", 6)
    n_probed = 0
    compared = sensitivity._compared

    def counting(*arguments):
        nonlocal n_probed
        n_probed += 1
        return compared(*arguments)

    monkeypatch.setattr(sensitivity, "_compared", counting)
    _, kept = _repaired(far, ranges[True], _Judge(far))
    assert [layer.name for layer in kept] == [FAR_LAYER]
    assert n_probed == 6


def test_noise_is_blind_to_what_all_classes_share():
    logits_NK = np.array([[1.0, 3.0], [2.0, 0.0]], np.float32)
    assert sensitivity._compared(logits_NK, logits_NK + 5).noise == 0
    assert sensitivity._compared(logits_NK, logits_NK * 2).noise == pytest.approx(1)
    swapped = sensitivity._compared(logits_NK, logits_NK[:, ::-1])
    assert (swapped.noise, swapped.agreement) == (4, 0)
    assert sensitivity._compared(logits_NK, logits_NK * np.nan).noise == np.inf
