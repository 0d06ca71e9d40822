"""Rings for a dispatch once the row that asks for it is committed."""

from __future__ import annotations

from django.db import transaction


def ring_on_commit() -> None:
    transaction.on_commit(_ring)


def _ring() -> None:
    from jobs.tasks import ring  # the tasks import what they start, which would be a cycle

    ring()
