"""``events.jsonl`` as a place to read from any ``seq`` on.

``seq`` grows with the position in the file, so a binary search over byte offsets finds a line without any index.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from jobs.models import Job
from jobs.storage import storage

_SEQ = re.compile(rb'\{"seq":(\d+),[^\n]*\}\n\Z')
_BACKWARD_BYTES = 64 * 1024
_LINEAR_BYTES = 4096
"""Below this distance reading on is cheaper than another jump."""


def seq_of(line: bytes) -> int | None:
    """``seq`` of a whole line; None for half a line, or the zeros that a power cut leaves."""
    found = _SEQ.match(line)
    return int(found[1]) if found else None


def offset_after(file: BinaryIO, seq: int) -> int:
    """Byte offset of the first line whose ``seq`` is greater; the end of the readable lines where there is none."""
    low, high = 0, file.seek(0, 2)
    while high - low > _LINEAR_BYTES:
        middle = (low + high) // 2
        file.seek(middle)
        begin = middle + len(file.readline())
        line = file.readline()
        found = seq_of(line)
        if begin >= high or found is None or found > seq:
            high = middle
        else:
            low = begin + len(line)
    file.seek(low)
    for line in file:
        found = seq_of(line)
        if found is None or found > seq:
            break
        low += len(line)
    return low


def last_whole_line(path: Path) -> tuple[int, int]:
    """``seq`` of the last line that can be read, and the offset of its end; zeros where there is none."""
    try:
        file = path.open("rb")
    except FileNotFoundError:
        return 0, 0
    with file:
        end = file.seek(0, 2)
        reach = _BACKWARD_BYTES
        while True:
            begin = max(0, end - reach)
            file.seek(begin)
            block = file.read(end - begin)
            if found := _last_readable(block, is_whole_file=begin == 0):
                return found[0], begin + found[1]
            if begin == 0:
                return 0, 0
            reach *= 4


def _last_readable(block: bytes, *, is_whole_file: bool) -> tuple[int, int] | None:
    end = 0
    found = None
    for n, line in enumerate(block.splitlines(keepends=True)):
        end += len(line)
        # Of a piece from the middle the first line may be half of one.
        if (n or is_whole_file) and (seq := seq_of(line)) is not None:
            found = seq, end
    return found


def lines_after(path: Path, after: int, *, until: int, limit: int) -> Iterator[bytes]:
    """Whole lines with ``after < seq <= until``, without their newline, at most ``limit``."""
    try:
        file = path.open("rb")
    except FileNotFoundError:
        return
    with file:
        file.seek(offset_after(file, after))
        for n, line in enumerate(file):
            seq = seq_of(line)
            if n >= limit or seq is None or seq > until:
                return
            yield line[:-1]


def events_after(job: Job, after: int, limit: int = 1000) -> bytes:
    """A JSON array of envelopes, as they were written, up to what the database has recorded."""
    return recorded_events(job.pk, after, until=job.last_seq, limit=limit)


def recorded_events(job_id: int, after: int, *, until: int, limit: int) -> bytes:
    """As ``events_after``, of a job of which only this is known."""
    path = storage().job(job_id).events_path
    return b"[" + b",".join(lines_after(path, after, until=until, limit=limit)) + b"]"
