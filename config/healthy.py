"""Whether a service works, for whoever started it: ``python -m config.healthy web``. Exit status 0, or 1 and why.

Needs nothing but Python, for it is asked every half minute.
"""

from __future__ import annotations

import os
import socket
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

from wire.layout import Storage

OLDEST_SIGN_S = 120.0
"""A worker hears itself every 25 s, an agent looks every 2 s."""
PATIENCE_S = 5.0


def trouble_of_web() -> str:
    address = f"http://127.0.0.1:{os.environ.get('PORT') or 8000}/healthz"
    # A name that ALLOWED_HOSTS has by default and in every example. It is on this machine, whatever proxy leads out.
    asked = urllib.request.Request(address, headers={"Host": "localhost"})
    try:
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(asked, timeout=PATIENCE_S):
            return ""
    except urllib.error.HTTPError as refusal:
        refusal.close()
        hint = ": ALLOWED_HOSTS must name localhost" if refusal.code == 400 else ""
        return f"{address} answers {refusal.code}{hint}"
    except OSError as problem:
        return f"{address} does not answer: {problem}"


def trouble_of_serve() -> str:
    path = _storage().serve_socket_path
    try:
        with socket.socket(socket.AF_UNIX) as probe:
            probe.settimeout(PATIENCE_S)
            probe.connect(str(path))
    except OSError as problem:
        return f"{path} does not answer: {problem}"
    return ""


def trouble_of_worker() -> str:
    return _old_sign("worker")


def trouble_of_agent() -> str:
    return _old_sign("agent")


SERVICES: dict[str, Callable[[], str]] = {
    "web": trouble_of_web,
    "serve": trouble_of_serve,
    "worker": trouble_of_worker,
    "agent": trouble_of_agent,
}


def _old_sign(service: str) -> str:
    path = _storage().sign_path(socket.gethostname(), service)
    try:
        age_s = time.time() - path.stat().st_mtime
    except FileNotFoundError:
        return f"{path} is not there: no {service} has worked here"
    return "" if age_s < OLDEST_SIGN_S else f"the last sign of life in {path} is {age_s:.0f} s old"


def _storage() -> Storage:
    return Storage(Path(os.environ.get("DATA_DIR") or "var"))


def main() -> int:
    if len(sys.argv) != 2 or sys.argv[1] not in SERVICES:
        sys.stderr.write(f"Usage: python -m config.healthy {'|'.join(SERVICES)}\n")
        return 2
    trouble = SERVICES[sys.argv[1]]()
    if trouble:
        sys.stderr.write(f"{trouble}\n")
    return 1 if trouble else 0


if __name__ == "__main__":
    sys.exit(main())
