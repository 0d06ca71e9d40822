"""Opening a source as a verb does, in a job's folder of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from engine.sources.opening import open_source
from engine.sources.tree import Tree
from wire.layout import JobDir
from wire.specs import FromUpload, Source


@dataclass(frozen=True, slots=True)
class Asked:
    """A stop that was asked for, or was not."""

    asked: bool


def ignore(_done: int, _total: int) -> None:
    pass


@contextmanager
def opened(
    upload: Path,
    *,
    name: str = "",
    on_progress: Callable[[int, int], None] = ignore,
    stopped: bool = False,
) -> Iterator[Tree]:
    """An uploaded archive; the job's folder is ``job`` beside it."""
    source = FromUpload(path=f"../{upload.name}", name=name or upload.name)
    with source_opened(source, upload.parent / "job", on_progress=on_progress, stopped=stopped) as tree:
        yield tree


@contextmanager
def source_opened(
    source: Source,
    job_dir: Path,
    *,
    on_progress: Callable[[int, int], None] = ignore,
    stopped: bool = False,
    labels_needed: bool = True,
) -> Iterator[Tree]:
    job = JobDir(job_dir)
    with open_source(
        source,
        job,
        scratch_dir=job.scratch_dir,
        on_progress=on_progress,
        stop=Asked(stopped),
        labels_needed=labels_needed,
    ) as tree:
        yield tree
