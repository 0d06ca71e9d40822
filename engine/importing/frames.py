"""How the import and its workers speak over a pipe: files one way, answers the other."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import IO, Final, Protocol

from engine.importing.checks import Answer, Looks

_COUNT: Final = struct.Struct("<I")
_KIND_AND_SIZE: Final = struct.Struct("<cI")
_LOOKS: Final = struct.Struct("<II?32s6d")
_LARGE, _ANSWERS = b"L", b"A"
_IMAGE, _REASON = 1, 0


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
    pipe.write(_KIND_AND_SIZE.pack(_LARGE, _COUNT.size) + _COUNT.pack(index))
    pipe.flush()


def write_answers(pipe: IO[bytes], answers: Sequence[Answer]) -> None:
    """All answers about one batch."""
    records = bytearray()
    for answer in answers:
        if isinstance(answer, str):
            reason = answer.encode()
            records.append(_REASON)
            records += _COUNT.pack(len(reason)) + reason
        else:
            records.append(_IMAGE)
            records += _LOOKS.pack(
                answer.width, answer.height, answer.is_grey, bytes.fromhex(answer.sha256), *answer.moments
            )
    pipe.write(_KIND_AND_SIZE.pack(_ANSWERS, len(records)) + records)
    pipe.flush()


def read_answers(pipe: Readable) -> Iterator[list[Answer] | int]:
    """The answers about one batch after another; a number is that of a file which is about to be decoded."""
    while True:
        kind, n_bytes = _KIND_AND_SIZE.unpack(read_exactly(pipe, _KIND_AND_SIZE.size))
        records = read_exactly(pipe, n_bytes)
        yield _COUNT.unpack(records)[0] if kind == _LARGE else list(_answers(records))


def _answers(records: bytes) -> Iterator[Answer]:
    offset = 0
    while offset < len(records):
        kind = records[offset]
        offset += 1
        if kind == _IMAGE:
            width, height, is_grey, sha256, *moments = _LOOKS.unpack_from(records, offset)
            offset += _LOOKS.size
            yield Looks(width, height, is_grey, sha256.hex(), tuple(moments))
        else:
            (n_bytes,) = _COUNT.unpack_from(records, offset)
            offset += _COUNT.size
            yield records[offset : offset + n_bytes].decode()
            offset += n_bytes


def read_exactly(pipe: Readable, n_bytes: int) -> bytes:
    """``n_bytes`` from a buffered pipe.

    Raises:
        PipeClosed: it ends before.
    """
    data = pipe.read(n_bytes)
    if len(data) < n_bytes:
        raise PipeClosed
    return data
