"""What every verb is given besides its spec."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from engine.emit import Sink
from engine.stop import Stop
from wire.layout import AttemptDir, JobDir


@dataclass(frozen=True, slots=True)
class Context:
    job: JobDir
    attempt: AttemptDir
    n: int
    sink: Sink
    stop: Stop
    cache_dir: Path
    """Host-local, may be emptied at any time: decoded images, downloaded weights."""
    weights_dir: Path | None
    """A local mirror of published weights, read first."""
