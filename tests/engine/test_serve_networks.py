"""Grad-CAM and the layer view, for every model there is."""

from __future__ import annotations

import io

import numpy as np
import pytest
import pytorch_grad_cam  # noqa: F401 - sets variables and warns while it is imported: not inside a test
import torch
import torch._inductor.utils  # an optimiser imports it, and it sets a variable: not inside a test
from PIL import Image
from torch import nn

from engine.catalog import model_cards
from engine.predict.session import Session
from engine.serve.drawing import overlaid, tiled
from engine.serve.explain import explain, find_target
from engine.serve.layers import layer_tiles, layers_of, values_of
from engine.serve.predictor import N_NETWORKS, Predictor, guesses
from engine.serve.stored import Datasets
from tests.kits.serving import picture_bytes, write_checkpoint, write_onnx_export
from wire.errors import ActionRefused, CheckpointDamaged, NotFound
from wire.layout import ExportDir
from wire.serving import MAX_TILES, N_HISTOGRAM_BINS, CheckpointFile, ExportFolder, PredictRequest, SentImage

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def _threads_as_before():
    n_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(n_threads)


def opened(path, **options):
    write_checkpoint(path, **options)
    session = Session.open(path)
    session.network.requires_grad_(requires_grad=False)
    return session


def noise(session):
    shape = (session.image_px, session.image_px, 1 if session.colour == "grey" else 3)
    return np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)


@pytest.fixture(params=sorted(model_cards()))
def session(request, tmp_path):
    """Every model with weights as they are drawn, at the smallest size it takes."""
    card = model_cards()[request.param]
    return opened(tmp_path / "a.pt", model=card.name, image_px=card.min_px)


def test_every_model_is_explained_and_told_layer_by_layer(session):
    pixels_HWC = noise(session)

    why = explain(session, pixels_HWC, name="x", label=1)
    facts, logits_K = layers_of(session, pixels_HWC)

    assert why.label == 1
    assert session.network.get_submodule(why.layer)
    heat_HW = np.array(why.heat)
    assert min(heat_HW.shape) > 1
    assert heat_HW.min() >= 0
    assert heat_HW.max() in (0, 1)
    assert Image.open(io.BytesIO(why.overlay_png)).size == (session.image_px, session.image_px)

    with torch.inference_mode():
        expected_K = session.network(session.normalised(pixels_HWC[None]))[0]
    assert torch.allclose(logits_K, expected_K, atol=1e-4)
    assert len({layer.name for layer in facts}) == len(facts)
    assert facts[0].activations.shape[0] > 0
    by_module = {layer.name: layer.n_parameters for layer in facts if "(" not in layer.name}
    assert 0.9 * session.n_parameters <= sum(by_module.values()) <= session.n_parameters
    for layer in facts:
        if layer.activations.histogram:
            assert sum(layer.activations.histogram) == np.prod(layer.activations.shape)
    assert all(not module._forward_hooks for module in session.network.modules())


def test_a_place_that_decides_is_hot(tmp_path):
    """A network that looks at the brightness of the left half alone."""
    session = opened(tmp_path / "a.pt", image_px=32)

    class Left(nn.Module):
        def __init__(self):
            super().__init__()
            self.look = nn.Conv2d(3, 1, 1, bias=False)
            nn.init.ones_(self.look.weight)

        def forward(self, images_BCHW):
            seen_BCHW = self.look(images_BCHW) * (torch.arange(images_BCHW.shape[3]) < 16)
            return torch.cat([seen_BCHW.mean((2, 3)), -seen_BCHW.mean((2, 3))], dim=1)

    pixels_HWC = np.zeros((32, 32, 3), np.uint8)
    pixels_HWC[4:12, 4:12] = 255
    object.__setattr__(session, "network", Left())
    object.__setattr__(session, "classes", ("bright", "dark"))

    heat_HW = np.array(explain(session, pixels_HWC, name="x", label=0).heat)

    assert heat_HW[4:12, 4:12].min() == 1
    heat_HW[4:12, 4:12] = 0
    assert heat_HW.max() == 0


def test_a_network_without_places_says_so():
    network = nn.Sequential(nn.Flatten(), nn.Linear(12, 2))

    with pytest.raises(ActionRefused, match="Grad-CAM"):
        find_target(network, torch.ones(1, 3, 2, 2, requires_grad=True), 0)


def test_an_overlay_without_heat_is_the_picture():
    seen = Image.new("RGB", (8, 6), "teal")

    assert overlaid(seen, np.zeros((2, 2), np.float32)).tobytes() == seen.tobytes()
    assert overlaid(seen, np.ones((2, 2), np.float32)).tobytes() != seen.tobytes()


class TestValues:
    def test_of_known_numbers(self):
        values = values_of(torch.arange(100.0).reshape(10, 10))

        assert values.shape == (10, 10)
        assert (values.min, values.max, values.mean) == (0, 99, 49.5)
        assert values.std == pytest.approx(np.arange(100).std())
        assert values.histogram == (5,) * N_HISTOGRAM_BINS

    def test_what_is_not_finite_is_counted_apart(self):
        values = values_of(torch.tensor([1.0, float("nan"), float("inf")]))

        assert (values.n_nonfinite, values.mean, values.std) == (2, 1, 0)
        assert values_of(torch.tensor([float("nan")])).mean is None

    def test_equal_numbers_are_one_bin(self):
        assert values_of(torch.ones(7)).histogram == (7, *[0] * (N_HISTOGRAM_BINS - 1))


class TestTiles:
    def test_many_channels_are_cut_off(self, tmp_path):
        session = opened(tmp_path / "a.pt", model="alexnet", image_px=63)
        facts, _ = layers_of(session, noise(session))
        widest = max(
            (layer for layer in facts if layer.has_activation_tiles), key=lambda layer: layer.activations.shape[0]
        )
        assert widest.activations.shape[0] > MAX_TILES

        sheet = layer_tiles(session, noise(session), widest.name, "activations")

        assert max(sheet.size) < 2000

    def test_grey_and_colour(self):
        tiles = np.random.default_rng(0).normal(size=(5, 3, 3, 3)).astype(np.float32)

        assert tiled(tiles).size == tiled(tiles[..., :1]).size
        assert tiled(np.full((1, 4, 4, 1), np.nan, np.float32)).getextrema() == ((0, 0),) * 3


class TestPredictor:
    @pytest.fixture
    def predictor(self, tmp_path):
        return Predictor(tmp_path, Datasets(tmp_path))

    def asked(self, path, sha256=""):
        checkpoint = CheckpointFile(path=path, sha256=sha256)
        return PredictRequest(network=checkpoint, images=(SentImage(name="x", n_bytes=1),))

    def test_answers_are_those_of_the_session(self, predictor, tmp_path):
        sha256 = write_checkpoint(tmp_path / "a.pt", colour="grey")
        data = picture_bytes(50, 40)
        session = Session.open(tmp_path / "a.pt")
        image = Image.open(io.BytesIO(data))
        (shares_K,) = session.probabilities(session.pixels(image)[None])

        (answer,) = predictor.predict(self.asked("a.pt", sha256), [memoryview(data)]).images

        assert (answer.width, answer.height) == (50, 40)
        assert [guess.probability for guess in answer.top] == pytest.approx(sorted(shares_K, reverse=True))
        assert Image.open(io.BytesIO(answer.seen_png)).mode == "L"

    def test_the_one_asked_longest_ago_is_let_go(self, predictor, tmp_path):
        data = memoryview(picture_bytes())
        for number in range(N_NETWORKS + 1):
            write_checkpoint(tmp_path / f"{number}.pt")
            assert predictor.predict(self.asked(f"{number}.pt"), [data]).load_ms > 0

        assert predictor.predict(self.asked("1.pt"), [data]).load_ms == 0
        assert predictor.predict(self.asked("0.pt"), [data]).load_ms > 0

    def test_a_file_that_is_not_the_announced_one(self, predictor, tmp_path):
        write_checkpoint(tmp_path / "a.pt")

        with pytest.raises(CheckpointDamaged):
            predictor.predict(self.asked("a.pt", "0" * 64), [memoryview(b"")])

    def test_shares_that_are_no_numbers(self):
        top = guesses(("a", "b", "c"), np.array([np.nan, 0.5, np.nan], np.float32), top=2)

        assert [(guess.name, guess.probability) for guess in top] == [("b", 0.5), ("a", 0)]


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """A grey checkpoint and an export of it."""
    root = tmp_path_factory.mktemp("root")
    write_checkpoint(root / "a.pt", colour="grey")
    sha256 = write_onnx_export(ExportDir(root / "export"), root / "a.pt")
    return root, sha256


class TestExports:
    @pytest.fixture
    def predictor(self, root):
        return Predictor(root[0], Datasets(root[0]))

    def asked(self, network, n_images=1):
        return PredictRequest(network=network, images=(SentImage(name="x", n_bytes=1),) * n_images)

    def test_pictures_of_every_kind_are_answered_as_by_the_checkpoint(self, predictor, root):
        draw = np.random.default_rng(0)
        pictures = []
        for mode, size in (("RGB", (300, 200)), ("L", (20, 20)), ("CMYK", (90, 60)), ("RGBA", (33, 47))):
            shape = (size[1], size[0], len(mode)) if mode != "L" else (size[1], size[0])
            file = io.BytesIO()
            Image.fromarray(draw.integers(0, 256, shape, dtype=np.uint8), mode).save(
                file, "TIFF" if mode == "CMYK" else "PNG"
            )
            pictures.append(memoryview(file.getvalue()))
        export = ExportFolder(path="export", sha256=root[1])

        by_runtime = predictor.predict(self.asked(export, len(pictures)), pictures)
        by_torch = predictor.predict(self.asked(CheckpointFile(path="a.pt"), len(pictures)), pictures)

        assert by_runtime.classes == by_torch.classes
        for one, other in zip(by_runtime.images, by_torch.images, strict=True):
            assert (one.width, one.height, one.seen_png) == (other.width, other.height, other.seen_png)
            assert [guess.name for guess in one.top] == [guess.name for guess in other.top]
            assert [guess.probability for guess in one.top] == pytest.approx(
                [guess.probability for guess in other.top], abs=1e-5
            )

    def test_both_kinds_are_held_under_one_limit(self, predictor, root):
        export, data = ExportFolder(path="export", sha256=root[1]), memoryview(picture_bytes())
        assert predictor.predict(self.asked(export), [data]).load_ms > 0
        assert predictor.predict(self.asked(export), [data]).load_ms == 0
        for n in range(N_NETWORKS):
            write_checkpoint(root[0] / f"{n}.pt")
            predictor.predict(self.asked(CheckpointFile(path=f"{n}.pt")), [data])
        assert predictor.predict(self.asked(export), [data]).load_ms > 0

    @pytest.mark.parametrize("file", ["model.onnx", "report.json"])
    def test_a_file_that_was_changed_is_refused(self, predictor, root, file):
        path = root[0] / "export" / file
        before = path.read_bytes()
        path.write_bytes(before + b" ")
        try:
            with pytest.raises(CheckpointDamaged, match=file):
                predictor.predict(self.asked(ExportFolder(path="export", sha256=root[1])), [memoryview(b"")])
        finally:
            path.write_bytes(before)

    def test_a_picture_that_is_too_large_for_its_runtime_is_refused_and_the_next_is_answered(self, predictor, root):
        pictures = [memoryview(picture_bytes(*size)) for size in ((6000, 4001), (32_768, 1), (30, 20))]
        export = ExportFolder(path="export", sha256=root[1])
        wide, long, small = predictor.predict(self.asked(export, len(pictures)), pictures).images
        assert wide.error.code == long.error.code == "image.invalid"
        assert "at most 24 million" in wide.error.message
        assert small.top

    def test_what_is_gone_or_elsewhere_is_not_found(self, predictor):
        for path in ("none", "../export"):
            with pytest.raises(NotFound):
                predictor.predict(self.asked(ExportFolder(path=path, sha256="0")), [memoryview(b"")])

    def test_engines_of_a_gpu_say_why_not(self, predictor, root):
        folder = ExportDir(root[0] / "engines")
        sha256 = write_onnx_export(folder, root[0] / "a.pt", backend="tensorrt_rtx", outcome="not_run")
        with pytest.raises(ActionRefused, match=r"not run here: no CUDA device|not installed"):
            predictor.predict(self.asked(ExportFolder(path="engines", sha256=sha256)), [memoryview(b"")])
