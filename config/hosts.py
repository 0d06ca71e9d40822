"""Under which names this server answers when nobody said so."""

from __future__ import annotations

import ipaddress
import socket

LOOPBACK_NAMES = ("localhost", "127.0.0.1", "[::1]")


def default_allowed_hosts(bind: str) -> list[str]:
    """Names and addresses that a request's ``Host`` may carry, by the address that the server listens on.

    Never "any": a server that answers to every name is open to pages of a stranger's domain that resolves to it.
    """
    names = list(LOOPBACK_NAMES)
    if is_loopback(bind):
        return names
    if not is_wildcard(bind):
        return [*names, _for_url(bind)]
    return [*names, socket.gethostname(), socket.getfqdn(), *_own_addresses()]


def is_loopback(bind: str) -> bool:
    if bind == "localhost":
        return True
    try:
        return ipaddress.ip_address(bind).is_loopback
    except ValueError:
        return False


def is_wildcard(bind: str) -> bool:
    return bind in {"0.0.0.0", "::"}  # noqa: S104  compared with, not bound to


def local_address(bind: str, port: int, prefix: str = "") -> str:
    """URL under which this machine reaches a server that listens on ``bind``."""
    host = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(bind) or _for_url(bind)  # noqa: S104  compared with
    return f"http://{host}:{port}{prefix}/"


def _for_url(address: str) -> str:
    return f"[{address}]" if ":" in address else address


def _own_addresses() -> list[str]:
    import psutil

    return [
        _for_url(entry.address.split("%")[0])
        for addresses in psutil.net_if_addrs().values()
        for entry in addresses
        if entry.family in {socket.AF_INET, socket.AF_INET6}
    ]
