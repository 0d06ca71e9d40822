from __future__ import annotations

import errno
import json
import math
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from engine.emit import JsonlSink, MemorySink, Throttle, scalars
from wire.events import ENVELOPE, Envelope, Notice, Progress, Scalars


def _read(path: Path) -> list[Envelope]:
    return [ENVELOPE.validate_json(line) for line in path.read_bytes().splitlines()]


def _progress(done: int) -> Progress:
    return Progress(stage="train", done=done, total=9)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "events.jsonl"


def _write(path: Path, n_events: int) -> None:
    sink = JsonlSink(path)
    for done in range(n_events):
        sink.emit(_progress(done))
    sink.sync()
    sink.close()


def test_lines_are_numbered_from_one_and_go_on_over_attempts(path):
    _write(path, 3)
    _write(path, 2)
    assert [envelope.seq for envelope in _read(path)] == [1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    "torn", [b'{"seq":4,"at":"2026', b"{", b"\x00" * 50, b"\x00" * 50 + b"\n", b'{"seq":4}\n', b"\n"]
)
def test_a_torn_line_is_removed_and_the_next_event_takes_its_number(path, torn):
    _write(path, 3)
    whole = path.read_bytes()
    path.write_bytes(whole + torn)
    _write(path, 1)
    assert path.read_bytes().startswith(whole)
    assert [envelope.seq for envelope in _read(path)] == [1, 2, 3, 4]


def test_a_file_of_only_a_torn_line_begins_anew(path):
    path.write_bytes(b'{"seq":1,"at"')
    _write(path, 1)
    assert [envelope.seq for envelope in _read(path)] == [1]


def test_a_last_line_longer_than_a_block_is_found(path):
    sink = JsonlSink(path)
    sink.emit(_progress(1))
    sink.emit(Notice(level="info", code="long", text="x" * 200_000))
    sink.close()
    path.write_bytes(path.read_bytes() + b"torn" * 50_000)
    reopened = JsonlSink(path)
    assert reopened.last_seq == 2
    reopened.close()


def test_a_write_that_fails_half_way_leaves_no_half_line(path, monkeypatch):
    sink = JsonlSink(path)
    sink.emit(_progress(1))
    real_write: Any = os.pwrite

    def full_disk(fd: int, data: bytes, offset: int) -> Any:
        if len(data) > 10:
            return real_write(fd, data[:10], offset)
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "pwrite", lambda fd, data, offset: full_disk(fd, data[:15], offset))
    with pytest.raises(OSError, match="No space"):
        sink.emit(_progress(2))
    monkeypatch.undo()
    sink.emit(_progress(3))
    sink.close()
    events = [envelope.event for envelope in _read(path)]
    assert events == [_progress(1), _progress(3)]
    assert [envelope.seq for envelope in _read(path)] == [1, 2]


@pytest.mark.parametrize(
    ("text", "written"),
    [("a\0b\0\0", "ab"), ("\\u0000", "\\u0000"), ("\\\0", "\\"), ("\\\\u0000\0c", "\\\\u0000c")],
)
def test_a_nul_character_is_dropped_and_text_about_it_is_not(path, text, written):
    sink = JsonlSink(path)
    sink.emit(Notice(level="info", code="c", text=text))
    sink.close()
    assert [envelope.event for envelope in _read(path)] == [Notice(level="info", code="c", text=written)]


def test_threads_share_one_numbering(path):
    sink = JsonlSink(path)

    def emit_many() -> None:
        for done in range(200):
            sink.emit(_progress(done))

    threads = [threading.Thread(target=emit_many) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    sink.close()
    assert [envelope.seq for envelope in _read(path)] == list(range(1, 801))


def test_values_that_are_not_finite_go_by_name():
    event = scalars(3, {"a": 1.5, "b": math.nan, "c": math.inf, "d": -math.inf})
    assert event == Scalars(
        step=3, values={"a": 1.5, "b": None, "c": None, "d": None}, nonfinite={"b": "nan", "c": "inf", "d": "-inf"}
    )
    json.loads(event.model_dump_json(), parse_constant=pytest.fail)


def test_the_throttle_opens_at_once_and_then_by_its_interval():
    times = iter((100.0, 100.1, 100.24, 100.25, 100.3, 100.5))
    throttle = Throttle(0.25, clock=lambda: next(times))
    assert [throttle.open() for _ in range(6)] == [True, False, False, True, False, True]


def test_the_memory_sink_remembers_what_was_synced():
    sink = MemorySink()
    sink.emit(_progress(1))
    sink.sync()
    sink.emit(_progress(2))
    assert (sink.last_seq, sink.synced_seq) == (2, 1)
    assert sink.events == [_progress(1), _progress(2)]
