from __future__ import annotations

import pytest
from django.db import IntegrityError, InterfaceError, InternalError, OperationalError

from jobs.supervision import patience
from jobs.supervision.patience import patiently


@pytest.mark.django_db
def test_a_database_that_comes_back_is_waited_for(monkeypatch, caplog):
    monkeypatch.setattr(patience, "RETRY_S", 0)
    monkeypatch.setattr(patience, "let_go_if_broken", lambda: None)
    answers = iter([OperationalError("gone"), InterfaceError("closed"), "here"])

    def ask():
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    assert patiently(ask) == "here"
    assert caplog.text.count("does not answer") == 1


class FrozenTooLong(Exception):
    sqlstate = "25P03"


@pytest.mark.django_db
def test_a_server_that_let_go_of_a_frozen_process_is_asked_again(monkeypatch):
    """PostgreSQL ends a transaction that stood still for too long, with an error of its own class."""
    monkeypatch.setattr(patience, "FIRST_RETRY_S", 0)
    monkeypatch.setattr(patience, "let_go_if_broken", lambda: None)
    frozen = InternalError("terminating connection due to idle-in-transaction timeout")
    frozen.__cause__ = FrozenTooLong()
    answers = iter([frozen, "here"])

    def ask():
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    assert patiently(ask) == "here"


def test_a_fault_is_not_waited_away():
    def fail():
        raise IntegrityError("twice")

    with pytest.raises(IntegrityError):
        patiently(fail)
