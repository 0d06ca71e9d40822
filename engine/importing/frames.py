"""How the import and its workers speak over a pipe: files one way, answers the other."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import IO, Final, Protocol

from engine.importing.checks import Answer, Looks

_COUNT: Final = struct.Struct("<I")
_LOOKS: Final = struct.Struct("<II?32s6d")
_LARGE, _IMAGE, _REASON = b"L", b"I", b"R"


class PipeClosed(EOFError):
    """The other side is gone."""


class Readable(Protocol):
    def read(self, n_bytes: int, /) -> bytes: ...


def write_files(pipe: IO[bytes], files: Sequence[bytes]) -> None:
    pipe.write(struct.pack(f"<I{len(files)}I", len(files), *map(len, files)))
    pipe.writelines(files)
    pipe.flush()


def read_files(pipe: Readable) -> list[bytes]:
    n_files = _COUNT.unpack(read_exactly(pipe, _COUNT.size))[0]
    sizes = struct.unpack(f"<{n_files}I", read_exactly(pipe, 4 * n_files))
    return [read_exactly(pipe, size_bytes) for size_bytes in sizes]


def write_large(pipe: IO[bytes], index: int) -> None:
    """Say, before it is decoded, that a file takes much memory: this may be the last word."""
    pipe.write(_LARGE + _COUNT.pack(index))
    pipe.flush()


def write_answers(pipe: IO[bytes], answers: Sequence[Answer]) -> None:
    for answer in answers:
        if isinstance(answer, str):
            reason = answer.encode()
            pipe.write(_REASON + _COUNT.pack(len(reason)) + reason)
        else:
            record = _LOOKS.pack(
                answer.width, answer.height, answer.is_grey, bytes.fromhex(answer.sha256), *answer.moments
            )
            pipe.write(_IMAGE + record)
    pipe.flush()


def read_answers(pipe: Readable) -> Iterator[Answer | int]:
    """Answers in order; a number is that of a file which is about to be decoded and takes much memory."""
    while True:
        kind = read_exactly(pipe, 1)
        if kind == _IMAGE:
            width, height, is_grey, sha256, *moments = _LOOKS.unpack(read_exactly(pipe, _LOOKS.size))
            yield Looks(width, height, is_grey, sha256.hex(), tuple(moments))
            continue
        number = _COUNT.unpack(read_exactly(pipe, _COUNT.size))[0]
        yield number if kind == _LARGE else read_exactly(pipe, number).decode()


def read_exactly(pipe: Readable, n_bytes: int) -> bytes:
    """``n_bytes`` from a buffered pipe.

    Raises:
        PipeClosed: it ends before.
    """
    data = pipe.read(n_bytes)
    if len(data) < n_bytes:
        raise PipeClosed
    return data
