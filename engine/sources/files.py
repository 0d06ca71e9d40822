"""Opening files that other people may exchange at any moment: what was opened is asked where it lies, not its name."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Sequence
from typing import Final

from engine.sources.large import LARGE_BYTES, demand_image, turn
from engine.sources.magic import HEAD_BYTES
from engine.sources.members import LINK, NOT_A_FILE, TOO_LARGE
from engine.sources.tree import MAX_MEMBER_BYTES, MemberUnreadable

_BLOCK_BYTES: Final = 16 * 2**20
_ELSEWHERE: Final = "it lies outside the folders that images may be read from"
_READ_ONLY: Final = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW


def open_below(roots: Sequence[str], path: str, *, follow_links: bool) -> int:
    """A file descriptor of a regular file that lies below one of ``roots`` (real paths), whatever its name says.

    Never waits, and never opens what is no file: reading a FIFO may block, and opening a device may act. Of a place
    elsewhere not even that there is a file is told.

    Raises:
        MemberUnreadable: it is not there, no regular file, or lies elsewhere.
    """
    if "\0" in path:
        raise MemberUnreadable("its name holds a NUL character")
    if follow_links:
        path = os.path.realpath(path)
        _demand_below(path, roots)
    try:
        _demand_file(os.stat(path, follow_symlinks=False))  # noqa: PTH116 - called for each image
        fd = os.open(path, _READ_ONLY)
    except OSError as error:
        raise _unreadable(error) from None
    try:
        _demand_file(os.fstat(fd))
        _demand_below(_real_path(fd, path), roots)
    except BaseException:
        os.close(fd)
        raise
    return fd


class OpenFolder:
    """A folder held open, for many files to be read from it: each then takes few calls of the operating system.

    Raises:
        MemberUnreadable: it is not there, or lies elsewhere than in ``root`` (a real path) by now.
    """

    def __init__(self, root: str, name: str) -> None:
        path = f"{root}/{name}" if name else root
        try:
            self._fd = os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise _unreadable(error) from None
        if (real := _real_path(self._fd, path)) != root and not is_below(real, (root,)):
            self.close()
            raise MemberUnreadable(_ELSEWHERE)

    def open(self, name: str) -> int:
        """A file descriptor of what lies in the folder under ``name``, which has no ``/``; ``read_whole`` looks at it.

        Wherever the folder was moved since, it is the one that was checked.

        Raises:
            MemberUnreadable: it is not there, or a link.
        """
        try:
            return os.open(name, _READ_ONLY, dir_fd=self._fd)
        except OSError as error:
            raise _unreadable(error) from None

    def close(self) -> None:
        os.close(self._fd)


def read_whole(fd: int, name: str) -> bytes:
    """All of an open file, if it is one and not larger than a member may be.

    Raises:
        MemberUnreadable: it is no regular file, too large, or the disk fails.
    """
    try:
        status = os.fstat(fd)
        _demand_file(status)
        if (size_bytes := status.st_size) <= LARGE_BYTES:
            return read_at(fd, 0, size_bytes)
        if size_bytes > MAX_MEMBER_BYTES:
            raise MemberUnreadable(TOO_LARGE)
        with turn(size_bytes):
            demand_image(name, os.pread(fd, HEAD_BYTES, 0))
            return read_at(fd, 0, size_bytes)
    except OSError as error:
        raise MemberUnreadable(f"the file cannot be read: {error.strerror or error}") from None


def read_at(fd: int, offset: int, n_bytes: int) -> bytes:
    """``n_bytes`` from ``offset``, or what there is up to the end; moves no position, so threads may share ``fd``."""
    data = os.pread(fd, n_bytes, offset)
    if len(data) == n_bytes:
        return data
    blocks = [data]
    while data:
        n_bytes -= len(data)
        offset += len(data)
        data = os.pread(fd, min(n_bytes, _BLOCK_BYTES), offset)
        blocks.append(data)
    return b"".join(blocks)


def is_below(path: str, roots: Sequence[str]) -> bool:
    """Whether a real path lies below one of these; whole parts are compared: ``/data2`` is not in ``/data``."""
    return any(root == "/" or path.startswith(root + "/") for root in roots)


def _demand_file(status: os.stat_result) -> None:
    if stat.S_ISLNK(status.st_mode):
        raise MemberUnreadable(LINK)
    if not stat.S_ISREG(status.st_mode):
        raise MemberUnreadable(NOT_A_FILE)


def _demand_below(path: str, roots: Sequence[str]) -> None:
    if not is_below(path, roots):
        raise MemberUnreadable(_ELSEWHERE)


def _unreadable(error: OSError) -> MemberUnreadable:
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return MemberUnreadable("there is no such file")
    if error.errno == errno.ELOOP:
        return MemberUnreadable(LINK)
    return MemberUnreadable(f"the file cannot be read: {error.strerror}")


def _real_path(fd: int, path: str) -> str:
    try:
        return os.readlink(f"/proc/self/fd/{fd}")  # noqa: PTH115 - called for each image
    except OSError:
        return os.path.realpath(path)
