"""``bundle.json`` and ``golden.json``: what the bundle's own programs read, and anybody else's may."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from pydantic import BaseModel

from engine.bundle.facts import ONNX, WEIGHTS, Entry, Overridden, RunFacts
from engine.bundle.networks import building
from engine.bundle.places import default_of, delivered, onnx_path
from wire.exports import NotRun

FORMAT: Final = 1
_LEAST_STD: Final = 1e-3
"""Below which Fovea does not divide: images of one value have a deviation of 0."""


def index_json(entries: Sequence[Entry], run: RunFacts) -> str:
    report = entries[0].report
    default = default_of(list(entries))
    return _json(
        {
            "format": FORMAT,
            "producer": "Fovea",
            "run": {"id": run.id, "title": run.title},
            "checkpoint": report.checkpoint.model_dump(include={"name", "step", "epoch", "sha256"}),
            "network": {"name": report.model.name, "options": report.model.options, "parameters": report.n_parameters},
            "classes": report.classes,
            "image_px": report.image_px,
            "resize": report.resize,
            "colour": report.colour,
            "mean": report.mean,
            "std": [max(value, _LEAST_STD) for value in report.std],
            "default": None if default is None else default.name,
            "models": [_model(entry) for entry in entries],
        }
    )


def _model(entry: Entry) -> dict[str, Any]:
    report, verdict = entry.report, entry.verdict
    is_onnx = entry.backend == ONNX and bool(entry.files("model"))
    return {
        "name": entry.name,
        "backend": entry.backend,
        "precision": report.precision,
        "verdict": "overridden" if isinstance(verdict, Overridden) else verdict.outcome,
        "reasons": _reasons(entry),
        "override": None
        if not isinstance(verdict, Overridden)
        else {"by": verdict.by, "at": verdict.at.isoformat(), "reason": verdict.reason},
        "onnx": onnx_path(entry) if is_onnx else None,
        "building": building(report) if entry.backend == WEIGHTS else None,
        "profile": _plain(report.profile),
        "files": [
            {
                "path": path,
                "role": file.role,
                "bytes": file.bytes,
                "sha256": file.sha256,
                "compute_capability": file.compute_capability,
            }
            for path, file in delivered(entry)
        ],
        "agreement": _plain(report.agreement),
        "speed": _plain(report.speed),
        "quantisation": _plain(report.quantisation),
        "bytes": report.bytes,
        "notes": report.notes,
        "versions": dict(sorted(report.versions.items())),
        "created_at": report.created_at.isoformat(),
    }


def _plain(part: BaseModel | None) -> Any:
    """By way of JSON, which has null for what is not finite."""
    return None if part is None else json.loads(part.model_dump_json())


def _reasons(entry: Entry) -> list[str]:
    if isinstance(entry.verdict, Overridden):
        return list(entry.verdict.failed.reasons)
    return [entry.verdict.reason] if isinstance(entry.verdict, NotRun) else []


def golden_json(entries: Sequence[Entry], place_of: Mapping[tuple[str, str], str]) -> str:
    """``place_of``: name of the entry and path in its export -> path of the image in the bundle."""
    cases = [
        {
            "model": entry.name,
            "image": place_of[entry.name, golden.path],
            "name": golden.name,
            "label": golden.label,
            "probabilities": golden.probabilities,
            "tolerance": golden.tolerance,
            "is_measured": golden.is_measured,
        }
        for entry in entries
        for golden in entry.report.golden
    ]
    return _json({"format": FORMAT, "cases": cases})


def _json(content: Mapping[str, Any]) -> str:
    # ASCII: whatever a class is called, every program reads the file.
    return json.dumps(content, indent=1, allow_nan=False) + "\n"
