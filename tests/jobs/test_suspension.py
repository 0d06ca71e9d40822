from __future__ import annotations

import os

import pytest

from jobs import suspension
from jobs.process import ProcessIdentity, boot_id
from jobs.storage import storage


@pytest.fixture
def gone_stopper(monkeypatch):
    """The mark of a process that is no more, though its number is in use again."""
    with monkeypatch.context() as patch:
        patch.setattr(suspension, "identify_self", lambda: ProcessIdentity(boot_id(), os.getpid(), 0))
        suspension.suspend()


def test_it_stands_while_its_stopper_lives():
    assert not suspension.is_suspended()
    suspension.lift_if_left_over()
    suspension.suspend()
    suspension.lift_if_left_over()
    suspension.suspend()
    assert suspension.is_suspended()
    suspension.lift()
    assert not suspension.is_suspended()


def test_it_outlives_its_stopper_until_a_server_runs_again(gone_stopper):
    assert suspension.is_suspended()
    suspension.lift_if_left_over()
    assert not suspension.is_suspended()


def test_a_stop_that_is_under_way_takes_an_older_mark_over(gone_stopper):
    suspension.suspend()
    suspension.lift_if_left_over()
    assert suspension.is_suspended()


@pytest.mark.parametrize("text", ["", "half 12", "boot pid started"])
def test_a_mark_that_names_nobody_blocks_nothing_for_ever(text):
    storage().run_dir.mkdir(parents=True)
    (storage().run_dir / "suspended").write_text(text)
    assert suspension.is_suspended()
    suspension.lift_if_left_over()
    assert not suspension.is_suspended()
