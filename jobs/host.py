"""The machine that this process runs on."""

from __future__ import annotations

import socket
from functools import cache


@cache
def host_name() -> str:
    return socket.gethostname()
