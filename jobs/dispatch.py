from __future__ import annotations


def dispatch() -> list[int]: ...
