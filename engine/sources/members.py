"""Which names are taken, and which are refused on sight."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final

from engine.sources.tree import MAX_MEMBER_BYTES, Stray, empty_folders, in_natural_order

_MAX_NAME_CHARS: Final = 1024
_SHOWN_CHARS: Final = 200
_CLUTTER: Final = frozenset({".ds_store", "__macosx", "thumbs.db", "desktop.ini"})
_ARCHIVE_ENDINGS: Final = (
    ".zip", ".tar", ".tgz", ".gz", ".tzst", ".zst", ".bz2", ".tbz2", ".xz", ".txz", ".7z", ".rar",
)  # fmt: skip
_PLAIN: Final = re.compile(
    r"(?:[A-Z0-9][\w ,()+-]*/)*[A-Z0-9][\w .,()+-]*\.(?:jpe?g|png|bmp|gif|webp|tiff?|ppm|txt)", re.ASCII | re.IGNORECASE
)
"""Nearly every name: known at once to be neither refused nor set aside, which saves half the time of a listing."""

TOO_LARGE: Final = f"the file is larger than {MAX_MEMBER_BYTES // 2**20} MiB"
NOT_UTF8: Final = "its name is not valid UTF-8"
LINK: Final = "it is a link"
NOT_A_FILE: Final = "it is no ordinary file"


def is_utf8(name: str) -> bool:
    """Whether a name can leave this process: one of another encoding arrives with surrogates in it."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


_REFUSED: Final[tuple[tuple[str, Callable[[str], object]], ...]] = (
    (NOT_UTF8, lambda name: not is_utf8(name)),
    (f"its name is longer than {_MAX_NAME_CHARS} characters", lambda name: len(name) > _MAX_NAME_CHARS),
    ("its name holds a NUL character", lambda name: "\0" in name),
    ("its name holds a backslash; pack it again with / between folders", lambda name: "\\" in name),
    ("its name is an absolute path", lambda name: name.startswith("/")),
    ("its name begins with a drive letter", re.compile(r"[A-Za-z]:").match),
    ("its name leads out of the archive (..)", lambda name: ".." in name.split("/")),
    ("a part of its name is empty", lambda name: not {"", "."}.isdisjoint(name.split("/"))),
)


def printable(name: str) -> str:
    """Names that are no UTF-8 come from the file system with surrogates, which nothing else takes."""
    shown = name.encode(errors="replace").decode().replace("\0", "\N{REPLACEMENT CHARACTER}")
    return shown if len(shown) <= _MAX_NAME_CHARS else f"{shown[:_SHOWN_CHARS]}..."


def is_clutter(name: str) -> bool:
    """Whether an operating system left it behind."""
    parts = name.lower().split("/")
    return any(part in _CLUTTER or part.startswith("._") for part in parts)


def set_aside(name: str) -> Stray | None:
    """What is known from a name alone, whatever it comes from: clutter, names of other encodings, archives."""
    if _PLAIN.fullmatch(name):
        return None
    shown = printable(name)
    if is_clutter(shown):
        return Stray(shown, "it was left behind by an operating system", clutter=True)
    if not is_utf8(name):
        return Stray(shown, NOT_UTF8)
    if name.lower().endswith(_ARCHIVE_ENDINGS):
        return Stray(name, "it is an archive itself; unpack it first")
    return None


def stored_name(raw: str) -> str:
    """The name as it is meant: ``tar -C folder .`` puts ``./`` before every one."""
    while raw.startswith("./"):
        raw = raw[2:].lstrip("/")
    return raw


def name_refusal(name: str) -> str | None:
    """Why a name that an archive stores is not taken; None where it is."""
    if _PLAIN.fullmatch(name) and len(name) <= _MAX_NAME_CHARS:
        return None
    return next((reason for reason, applies in _REFUSED if applies(name)), None)


class Listing:
    """Collects what an archive holds, member by member; no name is taken twice."""

    def __init__(self) -> None:
        self.index_of: dict[str, int] = {}
        """The files that are taken, with a number counted from 0 in the order in which they came."""
        self._strays: list[Stray] = []
        self._folders: set[str] = set()

    @property
    def n_members(self) -> int:
        return len(self.index_of) + len(self._strays) + len(self._folders)

    def add_file(self, raw: str, *, size_bytes: int, refusal: str | None = None) -> bool:
        """Take a file under its stored name, or refuse it; returns whether it was taken."""
        name = stored_name(raw)
        stray = self._stray(name, refusal or (TOO_LARGE if size_bytes > MAX_MEMBER_BYTES else None))
        if stray:
            self._strays.append(stray)
            return False
        self.index_of[name] = len(self.index_of)
        return True

    def add_folder(self, raw: str) -> None:
        name = stored_name(raw).rstrip("/")
        if not name or name == ".":
            return
        if refusal := name_refusal(name):
            self._strays.append(Stray(printable(raw), refusal))
        elif not is_clutter(name):
            self._folders.add(name)

    def names(self) -> list[str]:
        return in_natural_order(self.index_of)

    def strays(self) -> list[Stray]:
        return self._strays

    def empty_folders(self) -> Sequence[str]:
        return empty_folders(self._folders, self.index_of)

    def _stray(self, name: str, refusal: str | None) -> Stray | None:
        if reason := name_refusal(name):
            return Stray(printable(name), reason)
        if known := set_aside(name):
            return known
        if refusal:
            return Stray(name, refusal)
        if name in self.index_of:
            return Stray(name, "another file has the same name")
        return None
