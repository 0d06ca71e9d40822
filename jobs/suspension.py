"""A mark on disk that nothing may start: the server is being stopped."""

from __future__ import annotations

from pathlib import Path

from jobs.storage import storage


def is_suspended() -> bool:
    return _mark().exists()


def suspend() -> None:
    _mark().parent.mkdir(parents=True, exist_ok=True)
    _mark().touch()


def lift() -> None:
    _mark().unlink(missing_ok=True)


def _mark() -> Path:
    return storage().run_dir / "suspended"
