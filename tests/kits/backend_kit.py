"""What every export backend must do. Subclass ``BackendKit`` beside the backend's own tests:

    class TestOnnx(BackendKit):
        name = "onnx"

Three small networks are exported with random weights. Where the backend can run here, it must answer as PyTorch does,
to batches and images of any size; where it cannot, it must say why.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Final, cast

import numpy as np
import pytest
import torch
import torch._inductor.utils  # the converter imports it, and it sets a variable: not inside a test
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor, nn

from engine.catalog import backend_cards, model_cards
from engine.export.backends import Asked, Backend, BuildJob, Made
from engine.export.graph import model_bytes, whole_model
from engine.export.network import network_model
from engine.predict.session import Session
from wire.cards import BackendCard
from wire.errors import ActionRefused
from wire.layout import ExportDir
from wire.specs import ExportPrecision

CLASSES: Final = ("ant", "bee", "cat", "dog", "eel")
CPU: Final = torch.device("cpu")
TOLERANCES: Final = {"fp32": 1e-5, "fp16": 1e-3}
PX: Final = 32


class Attending(nn.Module):
    """Patches, one block of attention with its norms, a mean over the patches: the operators of a transformer."""

    def __init__(self, n_features: int = 16) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, n_features, 8, stride=8)
        self.norm = nn.LayerNorm(n_features)
        self.qkv = nn.Linear(n_features, 3 * n_features)
        self.head = nn.Sequential(nn.LayerNorm(n_features), nn.GELU(), nn.Linear(n_features, len(CLASSES)))

    def forward(self, images_BCHW: Tensor) -> Tensor:
        tokens_BTD = self.patches(images_BCHW).flatten(2).transpose(1, 2)
        q_B1TD, k_B1TD, v_B1TD = self.qkv(self.norm(tokens_BTD)).unsqueeze(1).chunk(3, dim=-1)
        tokens_BTD = tokens_BTD + nn.functional.scaled_dot_product_attention(q_B1TD, k_B1TD, v_B1TD).squeeze(1)
        return cast(Tensor, self.head(tokens_BTD.mean(dim=1)))


@dataclass(frozen=True)
class Case:
    """A network, the precision it is exported in, and its whole graph."""

    session: Session
    precision: ExportPrecision
    is_in_catalogue: bool = True
    """Only such a network can be rebuilt from its name."""

    @property
    def graph(self) -> bytes:
        return _graph(self.session.model, self.precision, is_in_catalogue=self.is_in_catalogue)

    def expected(self, images_NHWC: NDArray[np.uint8]) -> NDArray[np.float32]:
        """PyTorch's answer, on the pixels that training sees."""
        pixels = [self.session.pixels(Image.fromarray(image_HWC)) for image_HWC in images_NHWC]
        return self.session.probabilities(np.stack(pixels))


class Never:
    asked = False


def case(name: str) -> Case:
    if name == "attention":
        return Case(_attending(), "fp32", is_in_catalogue=False)
    return Case(drawn_session(name), "fp16" if name == "resnet20" else "fp32")


@cache
def drawn_session(model: str) -> Session:
    """A network of the catalogue for ``CLASSES``, in colour, with random weights."""
    card = model_cards()[model]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        network = card.load().build(n_classes=len(CLASSES), in_channels=3, image_px=PX, options=card.options())
    facts = {"task": "classification", "model": model, "model_options": {}, "classes": CLASSES, "image_px": PX}
    pixels = {"resize": "crop", "colour": "rgb", "mean": (0.5, 0.4, 0.3), "std": (0.3, 0.2, 0.25)}
    return Session.of({**facts, **pixels, "step": 7, "precision": "fp32", "network": network.state_dict()})


@cache
def _attending() -> Session:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return dataclasses.replace(drawn_session("lenet5"), network=Attending().eval())


@cache
def _graph(model: str, precision: ExportPrecision, *, is_in_catalogue: bool) -> bytes:
    session = drawn_session(model) if is_in_catalogue else _attending()
    return model_bytes(whole_model(network_model(session, precision), session))  # type: ignore[arg-type]


def pictures(n: int, height: int, width: int) -> NDArray[np.uint8]:
    """Noise over a ramp, so that a shift or a swapped colour is seen.

    Shapes:
        returns (n, height, width, 3).
    """
    ramp_HW1 = np.linspace(0, 200, height * width).reshape(height, width, 1)
    noise_NHWC = np.random.default_rng(n).integers(0, 56, (n, height, width, 3))
    return (ramp_HW1 + noise_NHWC).astype(np.uint8)


class BackendKit:
    name: ClassVar[str]
    options: ClassVar[dict[str, Any]] = {}
    models: ClassVar[tuple[str, ...]] = ("lenet5", "resnet20", "attention")
    """The second is exported in fp16, where the backend has it."""

    @pytest.fixture(autouse=True)
    def _one_thread(self) -> Iterator[None]:
        n_threads = torch.get_num_threads()
        torch.set_num_threads(1)
        yield
        torch.set_num_threads(n_threads)

    @property
    def card(self) -> BackendCard:
        return backend_cards()[self.name]

    @property
    def backend(self) -> Backend:
        return cast(Backend, self.card.load()())

    def build(self, made_of: Case, root: Path, *, stop: Asked = Never(), graph: bytes = b"", **options: Any) -> Made:  # noqa: B008
        lines: list[str] = []
        return self.backend.build(
            BuildJob(
                session=made_of.session,
                precision=made_of.precision if made_of.precision in self.card.precisions else "fp32",
                graph=(graph or made_of.graph) if self.backend.wants_graph else None,
                folder=ExportDir(root),
                options={**self.options, **options},
                stop=stop,
                tell=lines.append,
            )
        )

    @pytest.fixture(scope="class")
    @classmethod
    def built(cls, tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
        """Each network with its folder and what was made of it."""
        kit = cls()
        found = []
        for model in kit.models:
            root = tmp_path_factory.mktemp(f"{kit.name}-{model}")
            made_of = case(model)
            if made_of.is_in_catalogue or kit.backend.wants_graph:
                found.append((made_of, ExportDir(root), kit.build(made_of, root)))
        return found

    def test_its_card_says_what_one_must_know(self):
        assert self.card.label
        assert self.card.summary
        assert self.card.licence
        assert self.card.precisions
        assert self.card.missing == ()

    def test_its_versions_are_known(self):
        assert self.backend.versions()
        assert all(self.backend.versions().values())

    def test_its_files_are_where_the_layout_says(self, built):
        for _, folder, made in built:
            known = {folder.model_path, folder.weights_path}
            assert made.files
            for role, path, capability in made.files:
                assert path.stat().st_size > 0
                assert path == folder.engine_path(capability) if role == "engine" else path in known

    def test_it_answers_as_pytorch_does_or_says_why_it_cannot(self, built):
        for made_of, folder, _ in built:
            if reason := self.backend.why_not_run(folder, CPU):
                assert reason[0].islower() or reason.startswith(self.card.label)
                assert not reason.endswith(".")
                with pytest.raises(ActionRefused):
                    self.backend.open(folder, CPU)
                continue
            with closing(self.backend.open(folder, CPU)) as runtime:
                assert runtime.device.startswith("CPU")
                assert runtime.n_threads >= 1
                for images_NHWC in (pictures(1, 32, 32), pictures(3, 47, 20), pictures(2, 7, 90)):
                    shares_NK = runtime.probabilities(images_NHWC)
                    assert shares_NK.dtype == np.float32
                    tolerance = TOLERANCES[made_of.precision]
                    np.testing.assert_allclose(shares_NK, made_of.expected(images_NHWC), rtol=0, atol=tolerance)
