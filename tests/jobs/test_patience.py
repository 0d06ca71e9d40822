from __future__ import annotations

import pytest
from django.db import IntegrityError, InterfaceError, OperationalError

from jobs.supervision import patience
from jobs.supervision.patience import patiently


@pytest.mark.django_db
def test_a_database_that_comes_back_is_waited_for(monkeypatch, caplog):
    monkeypatch.setattr(patience, "RETRY_S", 0)
    monkeypatch.setattr(patience.connection, "close", lambda: None)
    answers = iter([OperationalError("gone"), InterfaceError("closed"), "here"])

    def ask():
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    assert patiently(ask) == "here"
    assert caplog.text.count("does not answer") == 1


def test_a_fault_is_not_waited_away():
    def fail():
        raise IntegrityError("twice")

    with pytest.raises(IntegrityError):
        patiently(fail)
