"""What would stop the start later, said before it in one line."""

from __future__ import annotations

import errno
import os
import socket
from pathlib import Path

from config.start.places import Places


class StartError(Exception):
    """The start cannot go on. The message is one line: what is wrong and what to do."""


def check_folders(places: Places, cache_dir: Path) -> None:
    """Make the folders of this installation, and see that they can be written.

    Raises:
        StartError: One of them cannot.
    """
    _check_folder("DATA_DIR", places.data_dir)
    _check_folder("CACHE_DIR", cache_dir)
    for folder in (places.run_dir, places.logs_dir):
        _check_folder("DATA_DIR", folder)
    _check_sockets_dir(places.sockets_dir)


def check_port(host: str, port: int) -> None:
    """See that the address can be listened on.

    Raises:
        StartError: It is in use, or is none of this machine's.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
            probe.listen(1)
    except socket.gaierror:
        raise StartError(f"HOST {host} is no address of this machine. Use 127.0.0.1 or 0.0.0.0.") from None
    except PermissionError:
        raise StartError(f"PORT {port} needs more rights than this user has. Choose one above 1023.") from None
    except OSError as problem:
        if problem.errno == errno.EADDRINUSE:
            raise StartError(f"PORT {port} on {host} is in use. Choose another: PORT={port + 1} make run") from None
        raise StartError(f"HOST {host}, PORT {port} cannot be listened on: {problem.strerror}.") from None


def _check_folder(setting: str, folder: Path) -> None:
    probe = folder / f".probe-{os.getpid()}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe.write_bytes(b"")
        probe.unlink()
    except OSError as problem:
        raise StartError(
            f"{setting} {folder} cannot be written: {problem.strerror}. Make it writable or set {setting} to another."
        ) from None


def _check_sockets_dir(folder: Path) -> None:
    """Beside ``DATA_DIR`` it lies in a folder that everybody may write: nobody else's is taken for ours."""
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    if found.st_uid != os.getuid() or folder.is_symlink():
        raise StartError(f"{folder} belongs to somebody else. Remove it, or set DATA_DIR to a shorter path.")
