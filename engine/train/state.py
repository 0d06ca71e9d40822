"""What a checkpoint holds, and how a run is put back to where one was taken."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
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
_NO_INFLUENCE = {"log_every", "checkpoint_every", "best_by", "keep_best"}
_ADDED: dict[str, Any] = {"ema_decay": 0.0, "early_stopping_epochs": 0, "deterministic": False}
"""Options that checkpoints of earlier versions do not know, with the values that change nothing."""


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
    machine: dict[str, str]
    """What computes: other processors and versions round otherwise."""

    @property
    def digest(self) -> str:
        """Equal for specs and data that give the same training, step by step."""
        spec = self.spec
        options = spec.options.model_dump(exclude=_NO_INFLUENCE)
        for name, neutral in _ADDED.items():
            if options[name] == neutral:
                del options[name]
        influence = {
            "samples": self.samples_sha256,
            "task": spec.task.model_dump(),
            "model": spec.model.model_dump(),
            "init": spec.init.model_dump(),
            "options": options,
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Beside:
    """What belongs to a checkpoint and neither to the run nor to its position."""

    ranking: Sequence[Best]
    operations: Sequence[str]
    """Those that had no fixed order, though one was asked for."""


def take(run: Run, at: Position, beside: Beside, facts: Facts, metrics: dict[str, float]) -> Snapshot:
    """The present state; its tensors are the live ones."""
    payload: Payload = {
        # What is used: the average where there is one. What is trained then stands beside it.
        "network": run.evaluated.state_dict(),
        "trained": run.network.state_dict() if run.average else None,
        "n_averaged": run.average.n_updates if run.average else 0,
        "optimiser": run.optimiser.state_dict(),
        "scaler": run.precision.scaler.state_dict(),
        "step": at.step,
        "epochs_done": at.epochs_done,
        "window_sums": at.window_sums,
        "epoch_sums": at.epoch_sums,
        "generators": generator_states(),
        "peak": at.peak,
        "n_stale_epochs": at.n_stale_epochs,
        "ranking": [asdict(best) for best in beside.ranking],
        "n_halvings": run.memory.n_halvings,
        "operations": list(beside.operations),
        "machine": dict(facts.machine),
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
    machine = payload.get("machine")
    if machine is None:
        return [*told, "a checkpoint of an earlier version of Fovea, which did not say on what it was made"]
    shared = sorted(facts.machine.keys() & machine.keys())
    return told + [
        f"{facts.machine[name]} instead of {machine[name]}" for name in shared if facts.machine[name] != machine[name]
    ]


def unordered(payload: Payload, facts: Facts, device: torch.device) -> list[str]:
    """What has no fixed order on this device, so that no two runs are bit-equal, stopped or not."""
    if device.type == "cpu":
        return []
    if not facts.spec.options.deterministic:
        return ["a GPU, which adds in no fixed order unless the option Deterministic is on"]
    if operations := payload.get("operations"):
        return [f"operations that have no fixed order on a GPU ({', '.join(operations)})"]
    return []


def restore(run: Run, payload: Payload, device: torch.device) -> Position:
    """Put weights, optimiser, scale and generators back, and say where to go on."""
    run.network.load_state_dict(payload.get("trained") or payload["network"])
    if run.average:
        run.average.network.load_state_dict(payload["network"])
        run.average.n_updates = payload["n_averaged"]
    run.optimiser.load_state_dict(payload["optimiser"])
    if payload["scaler"] and run.precision.scaler.is_enabled():
        run.precision.scaler.load_state_dict(payload["scaler"])
    run.memory.n_halvings = payload.get("n_halvings", 0)
    restore_generators(payload["generators"])
    ranking = ranking_of(payload)
    return Position(
        step=payload["step"],
        epochs_done=payload["epochs_done"],
        window_sums=_on(payload["window_sums"], device),
        epoch_sums=_on(payload["epoch_sums"], device),
        peak=payload.get("peak", ranking[0].value if ranking else None),
        n_stale_epochs=payload.get("n_stale_epochs", 0),
    )


def ranking_of(payload: Payload | None) -> tuple[Best, ...]:
    """The best epochs as a checkpoint knows them; those of earlier versions know one."""
    if payload is None:
        return ()
    if "ranking" in payload:
        return tuple(Best(**best) for best in payload["ranking"])
    return (Best(**payload["best"]),) if payload["best"] else ()


def _on(sums: torch.Tensor | None, device: torch.device) -> torch.Tensor | None:
    return None if sums is None else sums.to(device)
