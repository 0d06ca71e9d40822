"""The harness itself: that it finds what it is there to find."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from django.db import connection, transaction

from jobs.models import Attempt, JobEvent
from tests.faults.history import check_history
from tests.jobs.scripted_engine import LIVED


@contextmanager
def edited(path: Path, text: str) -> Iterator[None]:
    before = path.read_text() if path.exists() else None
    path.write_text(text)
    yield
    if before is None:
        path.unlink()
    else:
        path.write_text(before)


@contextmanager
def undone() -> Iterator[None]:
    with transaction.atomic():
        yield
        transaction.set_rollback(True)


def test_a_whole_history_is_praised_and_every_hole_is_found(scene, postgres):
    assert connection.vendor == "postgresql"
    job = scene.submit(steps=12, crash_at={"1": 8})
    scene.finish(job)
    scene.check(job)
    first, second = scene.attempts(job)
    assert (first.signal, second.signal) == (9, None)

    folder = scene.folder(job)
    lines = folder.events_path.read_text().splitlines(keepends=True)
    with edited(folder.events_path, "".join(lines[:3] + lines[4:])), found("gap or double"):
        check_history(job)
    with undone(), found("rows"):
        JobEvent.objects.filter(job=job, kind="notice").delete()
        check_history(job)
    with undone(), found("attempt 1"):
        Attempt.objects.filter(pk=first.pk).update(ended_at=second.ended_at)
        check_history(job)
    lives = [folder.attempt(n).path / LIVED for n in (1, 2)]
    with edited(lives[0], "".join(path.read_text() for path in lives)), found("at the same time"):
        check_history(job)
    with edited(folder.checkpoints_dir / "latest.tmp", "{}"), found(r"latest\.tmp"):
        check_history(job)
    scene.check(job)


def found(what):
    return pytest.raises(AssertionError, match=what)
