"""Text lists of lines ``path label``, as DIGITS took them, whose images lie on this machine."""

from __future__ import annotations

import os
from array import array
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple, Self

import numpy as np

from engine.sources.files import open_below, read_whole
from engine.sources.list_lines import LineRefused, Reading, class_names, lines_of
from engine.sources.tree import Listed, SourceStopped, StopWish, Stray
from wire.errors import DatasetInvalid, DatasetMissing, UploadMissing
from wire.layout import JobDir
from wire.manifests import SplitName
from wire.specs import FromLists

_LABELS: Final = "labels.txt"
_SPLITS: Final[tuple[SplitName, ...]] = ("train", "val", "test")
_MAX_REFUSED: Final = 100_000
"""So many lines of one mistake help nobody; the first ones tell it."""
_ASKED_EVERY: Final = 10_000


class _ListFile(NamedTuple):
    shown: str
    """``train.txt``, whatever the file is called: an upload has a number for its name."""
    path: Path
    split: SplitName | None
    version: tuple[int, int]
    """Size and time: lists are read more than once, and must say the same each time."""


class _Entry(NamedTuple):
    name: str
    label: str
    is_inside: bool
    """Below the folder that relative paths start from."""


class ListsTree:
    """Images that lie anywhere below the roots. Lists stream by; of each line a number is kept, not its text.

    A name is the path relative to the folder, or from the root of the disk; before it stands the split where there are
    several lists. Whether a file is there and may be read is seen when it is read.
    """

    licence = ""

    def __init__(self, source: FromLists, job: JobDir, *, labels_needed: bool, stop: StopWish) -> None:
        self._roots = tuple(os.path.realpath(root) for root in source.roots)
        self._folder = os.path.normpath(source.folder) if source.folder else ""
        self._stop = stop
        self._demand_usable(source)
        self._files = tuple(_list_files(source, job, has_splits=labels_needed))
        classes = None
        if source.labels:
            with _opened(source.labels, job, _LABELS) as file:
                classes = class_names(file, _LABELS)
        self._reading = Reading(classes, labels_needed)
        self._strays: list[Stray] = []
        self._doubles: set[tuple[str, int]] = set()
        self._inside_is_usual = True
        self._unusual: set[str] = set()
        """Names whose files lie inside the folder where most lie outside, or the other way round."""
        self._index()

    def names(self) -> Sequence[str]:
        """In the order of the lists."""
        return [listed.name for listed in self.listed()]

    def strays(self) -> Sequence[Stray]:
        return self._strays

    def empty_folders(self) -> Sequence[str]:
        return ()

    def read(self, name: str) -> bytes:
        _, _, rest = name.partition("/") if len(self._files) > 1 else ("", "", name)
        is_inside = self._inside_is_usual != (name in self._unusual)
        fd = open_below(self._roots, f"{self._folder}/{rest}" if is_inside else f"/{rest}", follow_links=True)
        try:
            return read_whole(fd, name)
        finally:
            os.close(fd)

    def listed(self) -> Iterator[Listed]:
        for file in self._files:
            for number, entry in self._entries(file, note=False):
                if (file.shown, number) not in self._doubles:
                    yield Listed(entry.name, file.split, entry.label)

    def close(self) -> None:
        """Nothing is held open."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _demand_usable(self, source: FromLists) -> None:
        if not self._roots:
            raise DatasetInvalid(
                "Lists name files of this server, and no folder of it is open for imports.",
                hint="Have the administrator name one in IMPORT_ROOTS, or upload an archive with the images.",
            )
        if self._folder and not (self._folder.startswith("/") and Path(self._folder).is_dir()):
            raise DatasetMissing(
                f"There is no folder {source.folder}.", hint="Check the path that the lists' paths start from."
            )

    def _index(self) -> None:
        """Note every line that cannot be used, and those that name a file again."""
        hashes = array("q")
        for file in self._files:
            for _, entry in self._entries(file, note=True):
                if not hashes:
                    self._inside_is_usual = entry.is_inside
                if entry.is_inside != self._inside_is_usual:
                    self._unusual.add(entry.name)
                hashes.append(hash(entry.name))
        sorted_N = np.sort(np.array(hashes, np.int64))
        if repeated := set(sorted_N[:-1][sorted_N[:-1] == sorted_N[1:]].tolist()):
            self._note_doubles(repeated)

    def _note_doubles(self, repeated: set[int]) -> None:
        first_line: dict[str, int] = {}
        for file in self._files:
            for number, entry in self._entries(file, note=False):
                if hash(entry.name) in repeated and first_line.setdefault(entry.name, number) != number:
                    self._doubles.add((file.shown, number))
                    self._note(file, number, f"it names the same file as line {first_line[entry.name]}")

    def _entries(self, file: _ListFile, *, note: bool) -> Iterator[tuple[int, _Entry]]:
        """The lines that can be used; the others are kept as strays if ``note``."""
        with _reopened(file) as lines:
            for number, text in lines_of(lines, file.shown):
                if number % _ASKED_EVERY == 0 and self._stop.asked:
                    raise SourceStopped
                try:
                    line = self._reading.line(text)
                    yield number, self._entry(file, line.path, line.label)
                except LineRefused as error:
                    if note:
                        self._note(file, number, str(error))

    def _entry(self, file: _ListFile, path: str, label: str) -> _Entry:
        if not self._folder and not path.startswith("/"):
            raise LineRefused("its path is relative; name the folder that paths start from")
        path = os.path.normpath(f"{self._folder}/{path}" if not path.startswith("/") else path)
        is_inside = bool(self._folder) and path.startswith(f"{self._folder}/")
        rest = path[len(self._folder) + 1 :] if is_inside else path.lstrip("/")
        if not rest:
            raise LineRefused("its path names no file")
        return _Entry(f"{_split_of(file)}/{rest}" if len(self._files) > 1 else rest, label, is_inside)

    def _note(self, file: _ListFile, number: int, reason: str) -> None:
        self._strays.append(Stray(f"{file.shown} line {number}", reason))
        if len(self._strays) > _MAX_REFUSED:
            first = self._strays[0]
            raise DatasetInvalid(
                f"More than {_MAX_REFUSED:,} lines cannot be used; the first is {first.name}: {first.reason}.",
                hint="Mend the lists: each line is a path, a blank, and a label.",
            )


def _list_files(source: FromLists, job: JobDir, *, has_splits: bool) -> Iterator[_ListFile]:
    paths = {"train": source.train, "val": source.val, "test": source.test}
    given = [split for split in _SPLITS if paths[split]]
    for split in given:
        shown = f"{split}.txt"
        with _opened(paths[split], job, shown) as file:
            version = _version(file)
        yield _ListFile(shown, job.resolve(paths[split]), split if has_splits and len(given) > 1 else None, version)


def _opened(path: str, job: JobDir, shown: str) -> BinaryIO:
    resolved = job.resolve(path)
    try:
        if resolved.is_file():
            return resolved.open("rb")
    except PermissionError:
        raise DatasetMissing(
            f"The list {path} may not be read.", hint="Give the user who runs Fovea the right to read it."
        ) from None
    if path.startswith("/"):
        raise DatasetMissing(f"There is no list {path}.", hint="Check the path on the machine that imports.")
    raise UploadMissing(f"The uploaded list {shown} is not there any more.", hint="Upload it again, then import again.")


@contextmanager
def _reopened(file: _ListFile) -> Iterator[BinaryIO]:
    with file.path.open("rb") as lines:
        if _version(lines) != file.version:
            raise DatasetInvalid(f"{file.shown} was changed while it was read.", hint="Start the import again.")
        yield lines


def _version(file: BinaryIO) -> tuple[int, int]:
    status = os.fstat(file.fileno())
    return status.st_size, status.st_mtime_ns


def _split_of(file: _ListFile) -> str:
    return file.shown.removesuffix(".txt")
