"""A folder of this machine, or several that stand for the splits. Links are not followed: they may lead anywhere."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Self

from engine.sources.files import OpenFolder, read_whole
from engine.sources.members import LINK, NOT_A_FILE, is_clutter, printable, set_aside
from engine.sources.tree import Listed, MemberUnreadable, Stray, Tree, empty_folders, natural_key


class FolderTree:
    """Names are looked up once, at the start; a folder in ``skip`` is not entered."""

    def __init__(self, root: Path, *, licence: str = "", skip: Sequence[Path] = ()) -> None:
        self.licence = licence
        self._root = os.path.realpath(root)
        self._skip = frozenset(os.path.realpath(path) for path in skip)
        self._names: list[str] = []
        self._strays: list[Stray] = []
        self._folders: list[str] = []
        self._opening = threading.Lock()
        self._open: tuple[str, OpenFolder] | None = None
        """The folder that was read from last."""
        self._walk()

    def names(self) -> Sequence[str]:
        return self._names

    def strays(self) -> Sequence[Stray]:
        return self._strays

    def empty_folders(self) -> Sequence[str]:
        return empty_folders(self._folders, self._names)

    def read(self, name: str) -> bytes:
        if "\0" in name:
            raise MemberUnreadable("its name holds a NUL character")
        folder, _, file_name = name.rpartition("/")
        with self._opening:
            fd = self._opened(folder).open(file_name)
        try:
            return read_whole(fd, name)
        finally:
            os.close(fd)

    def listed(self) -> Iterator[Listed] | None:
        return None

    def close(self) -> None:
        with self._opening:
            self._close_folder()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _opened(self, folder: str) -> OpenFolder:
        """Names come folder by folder, so one at a time is enough."""
        if self._open is None or self._open[0] != folder:
            self._close_folder()
            self._open = folder, OpenFolder(self._root, folder)
        return self._open[1]

    def _close_folder(self) -> None:
        if self._open is not None:
            self._open[1].close()
            self._open = None

    def _walk(self) -> None:
        """Depth first; folders wait on a list of their own, for trees may be deeper than Python's stack."""
        waiting = [""]
        while waiting:
            folder = waiting.pop()
            inner: list[str] = []
            for entry in self._entries(folder):
                name = folder + entry.name
                if entry.is_dir(follow_symlinks=False):
                    inner.append(name)
                else:
                    self._meet(name, entry)
            for name in inner:
                self._enter(name)
            waiting += [f"{name}/" for name in reversed(inner) if f"{self._root}/{name}" not in self._skip]

    def _enter(self, name: str) -> None:
        if printable(name) == name and not is_clutter(name) and f"{self._root}/{name}" not in self._skip:
            self._folders.append(name)

    def _meet(self, name: str, entry: os.DirEntry[str]) -> None:
        if stray := set_aside(name):
            self._strays.append(stray)
        elif entry.is_symlink():
            self._strays.append(Stray(name, LINK))
        elif not entry.is_file(follow_symlinks=False):
            self._strays.append(Stray(name, NOT_A_FILE))
        else:
            self._names.append(name)

    def _entries(self, folder: str) -> list[os.DirEntry[str]]:
        try:
            with os.scandir(f"{self._root}/{folder}") as entries:
                return sorted(entries, key=lambda entry: natural_key(entry.name))
        except OSError as error:
            if not folder:
                raise
            self._strays.append(Stray(printable(folder[:-1]), f"the folder cannot be read: {error.strerror}"))
            return []


class CombinedTree:
    """Several trees as one; each gives its key as the first part of its names."""

    def __init__(self, trees: Mapping[str, Tree]) -> None:
        self._trees = trees
        self.licence = next((tree.licence for tree in trees.values() if tree.licence), "")
        self._names = [f"{key}/{name}" for key, tree in trees.items() for name in tree.names()]

    def names(self) -> Sequence[str]:
        return self._names

    def strays(self) -> Sequence[Stray]:
        return [
            Stray(f"{key}/{stray.name}", stray.reason, clutter=stray.clutter)
            for key, tree in self._trees.items()
            for stray in tree.strays()
        ]

    def empty_folders(self) -> Sequence[str]:
        return [f"{key}/{folder}" for key, tree in self._trees.items() for folder in tree.empty_folders()]

    def read(self, name: str) -> bytes:
        key, _, rest = name.partition("/")
        if key not in self._trees:
            raise MemberUnreadable("there is no such file")
        return self._trees[key].read(rest)

    def listed(self) -> Iterator[Listed] | None:
        return None

    def close(self) -> None:
        for tree in self._trees.values():
            tree.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
