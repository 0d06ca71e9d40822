"""Trained networks kept warm on the CPU, asked by one request at a time. Loads torch."""

from __future__ import annotations

import os
import threading
import time
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias, cast

import numpy as np
import psutil
import torch
from numpy.typing import NDArray
from PIL import Image

from engine.predict.session import Session
from engine.serve.drawing import as_image, png
from engine.serve.explain import explain
from engine.serve.layers import layer_tiles, layers_of
from engine.serve.networks import Exported, Network, Trained
from engine.serve.pictures import Picture, read_image
from engine.serve.stored import Datasets, below
from wire.errors import FoveaError
from wire.layout import ExportDir
from wire.serving import (
    Answer,
    AskedImage,
    AskedNetwork,
    CheckpointFile,
    ExplainRequest,
    Explanation,
    Guess,
    ImageAnswer,
    Layers,
    LayersRequest,
    LayerTilesRequest,
    PredictRequest,
    Problem,
    StoredImage,
)

N_NETWORKS: Final = 3
"""That are held, of both kinds together: a comparison asks two by turns."""

_Sent: TypeAlias = Sequence[memoryview]


@dataclass(frozen=True, slots=True)
class _Seen:
    """An image as the network is shown it."""

    name: str
    image: Image.Image
    """As it was brought, upright."""
    pixels_HWC: NDArray[np.uint8]
    decode_ms: float

    @property
    def png(self) -> bytes:
        return png(as_image(self.pixels_HWC))


class Predictor:
    """Holds the networks that were asked last, and answers one request after the other."""

    def __init__(self, root: Path, datasets: Datasets) -> None:
        self._root = root
        self._datasets = datasets
        self._turn = threading.Lock()
        self._networks: OrderedDict[AskedNetwork, Network] = OrderedDict()
        torch.set_num_threads(_n_threads())

    def predict(self, asked: PredictRequest, sent: _Sent) -> Answer:
        """An image that cannot be read has an error in its place.

        Raises:
            NotFound, CheckpointMissing, CheckpointDamaged: the weights or the export cannot be used.
            ActionRefused: the export cannot be run here.
        """
        remaining = iter(sent)
        with self._turn:
            network, load_ms = self._network(asked.network)
            images = tuple(
                self._answer(network, image, None if isinstance(image, StoredImage) else next(remaining), asked.top)
                for image in asked.images
            )
        return Answer(classes=network.classes, image_px=network.image_px, images=images, load_ms=load_ms)

    def explain(self, asked: ExplainRequest, sent: _Sent) -> Explanation:
        """Grad-CAM for one image.

        Raises:
            ImageInvalid: the image cannot be read.
            SpecInvalid: the network has no such class.
            ActionRefused: the network has no layer that Grad-CAM can use.
            NotFound, CheckpointMissing, CheckpointDamaged: as in ``predict``.
        """
        with self._turn:
            session, trained = self._session(asked.checkpoint)
            seen = self._seen(trained, asked.image, sent[0] if sent else None)
            return explain(session, seen.pixels_HWC, name=seen.name, label=asked.label)

    def layers(self, asked: LayersRequest, sent: _Sent) -> Layers:
        """Raises what ``explain`` does for image and weights."""
        with self._turn:
            session, trained = self._session(asked.checkpoint)
            seen = self._seen(trained, asked.image, sent[0] if sent else None)
            began_s = time.perf_counter()
            facts, logits_K = layers_of(session, seen.pixels_HWC)
            return Layers(
                name=seen.name,
                top=guesses(session.classes, logits_K.softmax(dim=0).numpy(), top=5),
                seen_png=seen.png,
                n_parameters=session.n_parameters,
                layers=facts,
                ms=_ms_since(began_s),
            )

    def layer_tiles(self, asked: LayerTilesRequest, sent: _Sent) -> Picture:
        """Raises what ``layers`` does, and ``NotFound`` where the layer has no such tiles."""
        with self._turn:
            session, trained = self._session(asked.checkpoint)
            seen = self._seen(trained, asked.image, sent[0] if sent else None)
            return Picture(png(layer_tiles(session, seen.pixels_HWC, asked.layer, asked.what)), "image/png")

    def _session(self, checkpoint: CheckpointFile) -> tuple[Session, Trained]:
        trained = cast(Trained, self._network(checkpoint)[0])
        return trained.session, trained

    def _network(self, asked: AskedNetwork) -> tuple[Network, float]:
        """The network, and what it took to load it."""
        if asked in self._networks:
            self._networks.move_to_end(asked)
            return self._networks[asked], 0.0
        began_s = time.perf_counter()
        while len(self._networks) >= N_NETWORKS:
            self._networks.popitem(last=False)[1].close()
        path = below(self._root, asked.path)
        network: Network
        if isinstance(asked, CheckpointFile):
            network = Trained.open(path, sha256=asked.sha256)
        else:
            network = Exported.open(ExportDir(path), sha256=asked.sha256)
        self._networks[asked] = network
        return network, _ms_since(began_s)

    def _answer(self, network: Network, image: AskedImage, data: memoryview | None, top: int) -> ImageAnswer:
        try:
            seen = self._seen(network, image, data)
        except FoveaError as error:
            problem = Problem(code=error.code, message=error.message, hint=error.hint)
            return ImageAnswer(name=_name(image), error=problem)
        began_s = time.perf_counter()
        shares_K = network.shares(seen.image, seen.pixels_HWC)
        return ImageAnswer(
            name=seen.name,
            width=seen.image.width,
            height=seen.image.height,
            top=guesses(network.classes, shares_K, top=top),
            seen_png=seen.png,
            decode_ms=seen.decode_ms,
            forward_ms=_ms_since(began_s),
        )

    def _seen(self, network: Network, image: AskedImage, data: memoryview | None) -> _Seen:
        began_s = time.perf_counter()
        name = _name(image)
        if isinstance(image, StoredImage):
            with self._datasets.reader(image.dataset) as reader:
                name, encoded = reader.sample(image.sample).name, reader.image_bytes(image.sample)
        else:
            encoded = bytes(data or b"")
        decoded = read_image(encoded, name=name)
        pixels_HWC = network.pixels(decoded)
        return _Seen(name, decoded, pixels_HWC, _ms_since(began_s))


def guesses(classes: Sequence[str], shares_K: NDArray[np.float32], *, top: int) -> tuple[Guess, ...]:
    """The most probable classes; where shares are not numbers, the classes in their order with none of them."""
    finite_K = np.nan_to_num(shares_K.astype(np.float64), nan=0.0, posinf=0.0, neginf=0.0)
    order = np.argsort(-finite_K, kind="stable")[:top]
    return tuple(
        Guess(label=int(label), name=classes[label], probability=float(finite_K[label])) for label in order.tolist()
    )


def _name(image: AskedImage) -> str:
    return f"image {image.sample}" if isinstance(image, StoredImage) else image.name


def _n_threads() -> int:
    """One for each physical core: a second thread on the same core makes a convolution no faster."""
    return max(1, min(psutil.cpu_count(logical=False) or 1, len(os.sched_getaffinity(0))))


def _ms_since(began_s: float) -> float:
    return round((time.perf_counter() - began_s) * 1000, 2)
