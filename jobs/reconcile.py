from __future__ import annotations


def reconcile() -> list[int]: ...
