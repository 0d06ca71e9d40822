"""What a checkpoint holds, and how a run is put back to where one was taken."""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import asdict, dataclass
from typing import Any

import torch

from engine.checkpoint import Payload
from engine.seeds import generator_states, restore_generators
from engine.train.loop import Position, Run
from engine.train.shelf import Best, Snapshot
from wire.errors import SpecInvalid
from wire.specs import TrainSpec

_CLASSES_IN_META = 1000
_NO_INFLUENCE = {"log_every", "checkpoint_every", "best_by"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What the weights alone do not tell: needed to use them, and to know whether a run can be continued exactly."""

    spec: TrainSpec
    classes: tuple[str, ...]
    mean: tuple[float, ...]
    std: tuple[float, ...]
    samples_sha256: str
    n_parameters: int
    n_threads: int
    precision: str

    @property
    def digest(self) -> str:
        """Equal for specs and data that give the same training, step by step."""
        spec = self.spec
        influence = {
            "samples": self.samples_sha256,
            "task": spec.task.model_dump(),
            "model": spec.model.model_dump(),
            "init": spec.init.model_dump(),
            "options": spec.options.model_dump(exclude=_NO_INFLUENCE),
        }
        return hashlib.sha256(json.dumps(influence, sort_keys=True).encode()).hexdigest()

    def use(self) -> dict[str, Any]:
        """What one must know to put images through the network."""
        options = self.spec.options
        return {
            "task": self.spec.task.name,
            "model": self.spec.model.name,
            "model_options": dict(self.spec.model.options),
            "image_px": options.image_px,
            "resize": options.resize,
            "colour": options.colour,
            "mean": list(self.mean),
            "std": list(self.std),
        }


def take(run: Run, at: Position, best: Best | None, facts: Facts, metrics: dict[str, float]) -> Snapshot:
    """The present state; its tensors are the live ones."""
    payload: Payload = {
        "network": run.network.state_dict(),
        "optimiser": run.optimiser.state_dict(),
        "scaler": run.precision.scaler.state_dict(),
        "step": at.step,
        "epochs_done": at.epochs_done,
        "window_sums": at.window_sums,
        "epoch_sums": at.epoch_sums,
        "generators": generator_states(),
        "best": asdict(best) if best else None,
        "digest": facts.digest,
        "n_threads": facts.n_threads,
        "precision": facts.precision,
        "memory_format": "channels_last",
        "classes": list(facts.classes),
        **facts.use(),
    }
    meta = {
        "step": at.step,
        "epoch": round(at.step / run.train.n_batches, 3),
        "epochs_done": at.epochs_done,
        # JSON knows no NaN; the curve has it.
        "metrics": {name: value if math.isfinite(value) else None for name, value in metrics.items()},
        "classes": list(facts.classes[:_CLASSES_IN_META]),
        "n_classes": len(facts.classes),
        "n_parameters": facts.n_parameters,
        "precision": facts.precision,
        **facts.use(),
    }
    is_behind = at.step == (at.epochs_done + 1) * run.train.n_batches
    return Snapshot(at.step, payload, meta, waits_for_validation=is_behind)


def check_continues(payload: Payload, facts: Facts) -> None:
    """Refuse to continue something else.

    Raises:
        SpecInvalid: the spec or the dataset is not the one that the checkpoint was trained with.
    """
    if payload["digest"] != facts.digest:
        raise SpecInvalid(
            f"The spec or the dataset has changed since the checkpoint of step {payload['step']} was made.",
            hint="Put it back to continue, or start a new job from that checkpoint.",
        )


def differences(payload: Payload, facts: Facts) -> list[str]:
    """Why the continued run will not be bit-equal to one that was never stopped; empty where it will be."""
    told = []
    if payload["n_threads"] != facts.n_threads:
        told.append(f"{facts.n_threads} threads instead of {payload['n_threads']}")
    if payload["precision"] != facts.precision:
        told.append(f"{facts.precision} instead of {payload['precision']}")
    return told


def restore(run: Run, payload: Payload, device: torch.device) -> Position:
    """Put weights, optimiser, scale and generators back, and say where to go on."""
    run.network.load_state_dict(payload["network"])
    run.optimiser.load_state_dict(payload["optimiser"])
    if payload["scaler"] and run.precision.scaler.is_enabled():
        run.precision.scaler.load_state_dict(payload["scaler"])
    restore_generators(payload["generators"])
    return Position(
        step=payload["step"],
        epochs_done=payload["epochs_done"],
        window_sums=_on(payload["window_sums"], device),
        epoch_sums=_on(payload["epoch_sums"], device),
    )


def best_of(payload: Payload | None) -> Best | None:
    return Best(**payload["best"]) if payload and payload["best"] else None


def _on(sums: torch.Tensor | None, device: torch.device) -> torch.Tensor | None:
    return None if sums is None else sums.to(device)
