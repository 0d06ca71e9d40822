"""Where everything lies in a bundle. README.md tells people; these names do not change."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Final

from engine.bundle.facts import ONNX, WEIGHTS, Entry
from wire.exports import ExportedFile, Passed

INDEX: Final = "bundle.json"
GOLDEN: Final = "golden.json"
CHECKSUMS: Final = "SHA256SUMS"
WEIGHTS_DIR: Final = "weights"
TRITON_DIR: Final = "model_repository"
_MODEL_ROLES: Final = ("model", "engine", "weights", "source")


def folder_of(entry: Entry) -> str:
    return WEIGHTS_DIR if entry.backend == WEIGHTS else f"models/{entry.name}"


def path_of(entry: Entry, file: ExportedFile) -> str:
    return f"{folder_of(entry)}/{PurePosixPath(file.path).name}"


def delivered(entry: Entry) -> list[tuple[str, ExportedFile]]:
    """Files with their places, those of golden images left out."""
    return [(path_of(entry, file), file) for file in entry.files(*_MODEL_ROLES)]


def default_of(entries: list[Entry]) -> Entry | None:
    """What ``predict.py`` takes where nothing is said: of the ONNX models the one that is closest to what was trained.

    Those that were measured and passed go before all others.
    """
    runnable = [entry for entry in entries if entry.backend == ONNX and entry.files("model")]
    return min(runnable, key=lambda entry: (not isinstance(entry.verdict, Passed), entry.order), default=None)


def onnx_path(entry: Entry) -> str:
    """Of the ONNX model of an entry for ONNX Runtime."""
    return path_of(entry, entry.files("model")[0])
