"""Folders of this machine that people may read: those below ``IMPORT_ROOTS``, wherever links lead."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from django.conf import settings

from wire.errors import ActionRefused, SpecInvalid

MAX_ENTRIES = 200


@dataclass(frozen=True, slots=True)
class FolderEntry:
    path: str
    name: str
    is_dir: bool


@dataclass(frozen=True, slots=True)
class ServerFolders:
    roots: list[str]
    entries: list[FolderEntry]


def import_roots() -> list[Path]:
    return [Path(root).resolve() for root in settings.IMPORT_ROOTS]


def offered_folder(path: str) -> str:
    """Where this folder really lies.

    Raises:
        ActionRefused: not below ``IMPORT_ROOTS``.
        SpecInvalid: no folder.
    """
    real = _offered(path, what="folder")
    if not real.is_dir():
        raise SpecInvalid(f"There is no folder {path} on this server.", hint="Check the path, letter by letter.")
    return str(real)


def offered_file(path: str) -> str:
    """Where this file really lies.

    Raises:
        ActionRefused: not below ``IMPORT_ROOTS``.
        SpecInvalid: no file.
    """
    real = _offered(path, what="file")
    if not real.is_file():
        raise SpecInvalid(f"There is no file {path} on this server.", hint="Check the path, letter by letter.")
    return str(real)


def server_folders(prefix: str) -> ServerFolders:
    """What a path that begins with ``prefix`` may go on with; nothing where it leads out of the roots."""
    roots = import_roots()
    told = [str(root) for root in roots]
    return ServerFolders(roots=told, entries=_entries(prefix, roots))


def _entries(prefix: str, roots: list[Path]) -> list[FolderEntry]:
    if ".." in prefix.split("/"):
        return []
    parent, _, begun = prefix.rpartition("/")
    folder = _real(f"{parent}/") if prefix.startswith("/") else None
    if folder is None or not _is_below(folder, roots):
        return [FolderEntry(str(root), root.name, is_dir=True) for root in roots if str(root).startswith(prefix)]
    found = sorted(_children(folder, begun, roots), key=lambda entry: (not entry.is_dir, entry.name))
    return [FolderEntry(f"{parent}/{entry.name}", entry.name, entry.is_dir) for entry in found[:MAX_ENTRIES]]


def _children(folder: Path, begun: str, roots: list[Path]) -> Iterator[FolderEntry]:
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if not entry.name.startswith(begun) or entry.name.startswith(".") or not _is_text(entry.name):
                    continue
                if entry.is_symlink():
                    real = _real(entry.path)
                    if real is None or not _is_below(real, roots):
                        continue
                is_dir = entry.is_dir()
                if is_dir or entry.is_file():
                    yield FolderEntry(entry.path, entry.name, is_dir)
    except OSError:
        return  # not there, not a folder, or not ours to read


def _offered(path: str, *, what: str) -> Path:
    real = _real(path)
    if real is None or not path.startswith("/") or not _is_below(real, import_roots()):
        roots = ", ".join(str(root) for root in import_roots())
        offered = f"Choose one below {roots}" if roots else "Upload the images"
        raise ActionRefused(
            f"The {what} {path} is not offered for import.",
            hint=f"{offered}, or ask the administrator to add its folder to the setting IMPORT_ROOTS.",
        )
    return real


def _real(path: str) -> Path | None:
    """Without links and dots; None for what can be no path."""
    try:
        return Path(path).resolve()
    except (OSError, ValueError, RuntimeError):
        return None


def _is_below(path: Path, roots: list[Path]) -> bool:
    return any(path.is_relative_to(root) for root in roots)


def _is_text(name: str) -> bool:
    """Names that are no UTF-8 cannot be told in JSON."""
    return not any("\ud800" <= sign <= "\udfff" for sign in name)
