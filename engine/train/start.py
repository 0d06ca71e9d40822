"""The network that a training begins with: drawn anew, from published weights, or from an earlier checkpoint."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from pydantic import BaseModel
from torch import nn

from engine.checkpoint import Payload, read_checkpoint, read_state
from engine.context import Context
from engine.emit import Throttle
from engine.models.architecture import Architecture, Rgb
from engine.models.transfer import load_weights
from engine.models.weights import find_weights
from wire.cards import ModelCard, WeightsCard
from wire.errors import SpecInvalid, WeightsMismatch
from wire.events import Notice, Progress
from wire.manifests import DatasetManifest
from wire.specs import FromCheckpoint, FromPublished, TrainSpec

_PROGRESS_INTERVAL_S = 0.25

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Start:
    spec: TrainSpec
    model: ModelCard
    model_options: BaseModel
    manifest: DatasetManifest
    n_outputs: int
    in_channels: int


def start_network(start: Start, context: Context, *, resumed: Payload | None) -> tuple[nn.Module, Rgb, Rgb]:
    """The network, and the mean and deviation that its input is normalised by.

    A run that goes on takes both from its own checkpoint: what it began with may be gone by now.

    Raises:
        WeightsMissing, WeightsMismatch, CheckpointMissing, CheckpointDamaged: the start weights cannot be used.
        DownloadStopped: a stop was asked for.
    """
    architecture: Architecture = start.model.load()
    network = architecture.build(
        n_classes=start.n_outputs,
        in_channels=start.in_channels,
        image_px=start.spec.options.image_px,
        options=start.model_options,
    )
    init = start.spec.init
    if resumed is not None:
        return network, tuple(resumed["mean"]), tuple(resumed["std"])
    if isinstance(init, FromPublished):
        _from_published(network, architecture, _weights_card(start.model, init.weights), context)
        return network, architecture.published_mean, architecture.published_std
    if isinstance(init, FromCheckpoint):
        payload = read_checkpoint(context.job.resolve(init.path))
        _from_checkpoint(network, architecture, payload, start, context)
        return network, tuple(payload["mean"]), tuple(payload["std"])
    return network, start.manifest.mean, start.manifest.std


def _weights_card(model: ModelCard, name: str) -> WeightsCard:
    for card in model.weights:
        if card.name == name:
            return card
    names = ", ".join(card.name for card in model.weights) or "none; start from scratch"
    raise SpecInvalid(f"{model.label} has no published weights {name!r}.", hint=f"There are: {names}.")


def _from_published(network: nn.Module, architecture: Architecture, card: WeightsCard, context: Context) -> None:
    throttle = Throttle(_PROGRESS_INTERVAL_S)

    def tell(done: int, total: int) -> None:
        if throttle.open():
            context.sink.emit(Progress(stage="download", done=done, total=total))

    path = find_weights(
        card,
        weights_dir=context.weights_dir,
        cache_dir=context.cache_dir,
        on_progress=tell,
        stop_asked=lambda: context.stop.asked,
    )
    load_weights(network, read_state(path), architecture, keep_head=False, origin=card.file)
    _tell(context, f"Starts from {card.file} ({card.source}); the last layer is new, for the classes of this dataset.")


def _from_checkpoint(
    network: nn.Module, architecture: Architecture, payload: Payload, start: Start, context: Context
) -> None:
    if payload["model"] != start.model.name:
        raise WeightsMismatch(
            f"The checkpoint holds the model {payload['model']!r}, the job asks for {start.model.name!r}.",
            hint=f"Choose the model {payload['model']!r}.",
        )
    keep_head = tuple(payload["classes"]) == start.manifest.classes
    origin = f"the checkpoint of step {payload['step']}"
    load_weights(network, payload["network"], architecture, keep_head=keep_head, origin=origin)
    head = "the classes are the same" if keep_head else "the classes differ, so the last layer is new"
    _tell(context, f"Starts from {origin}; {head}.")


def _tell(context: Context, text: str) -> None:
    context.sink.emit(Notice(level="info", code="weights.loaded", text=text))
    log.info(text)
