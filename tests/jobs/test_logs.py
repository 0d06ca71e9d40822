from __future__ import annotations

import pytest

from jobs.logs import MOST_BYTES, WholeLog, last_lines, log_read
from jobs.storage import storage
from jobs.supervision import log_cap
from jobs.supervision.log_cap import MIB, cap

pytestmark = pytest.mark.django_db

LINE = b"x" * 99 + b"\n"


@pytest.fixture
def job(make_job):
    return make_job()


@pytest.fixture
def log(job, monkeypatch):
    monkeypatch.setattr(log_cap, "MOST_BYTES", 4 * MIB)
    monkeypatch.setattr(log_cap, "LAST_BYTES", 2 * MIB)
    path = storage().job(job.pk).attempt(1).log_path
    path.parent.mkdir(parents=True)
    return path


def write(path, n_bytes):
    with path.open("ab") as file:
        file.write(b"the first line\n")
        for _ in range(n_bytes // len(LINE) // 1000):
            file.write(LINE * 1000)
        file.write(b"the last line\n")


def test_a_short_log_stays_as_it_is(log):
    write(log, 3 * MIB)
    before = log.read_bytes()
    assert not cap(log)
    assert log.read_bytes() == before


@pytest.mark.parametrize("with_holes", [True, False])
def test_of_a_long_log_the_first_lines_and_the_last_ones_are_kept(log, job, monkeypatch, with_holes):
    if not with_holes:

        def refuse(*_):
            raise OSError(95, "Operation not supported")

        monkeypatch.setattr(log_cap, "_punch", refuse)
    write(log, 30 * MIB)
    assert cap(log)
    assert log.stat().st_blocks * 512 <= 4 * MIB
    assert not cap(log)
    with log.open("ab") as file:
        file.write(b"said after that\n")
    whole = b"".join(iter(WholeLog(log).read, b""))
    assert whole.startswith(b"the first line\n" + LINE)
    assert whole.endswith(LINE + b"the last line\nsaid after that\n")
    assert b"left out here" in whole
    assert b"\0" not in whole
    assert len(whole) <= 4 * MIB
    assert last_lines(job.pk, 1, 2) == "the last line\nsaid after that"
    assert log_read(job).text.endswith("the last line\nsaid after that\n")


def test_the_last_lines_hold_nothing_that_a_database_refuses(log, job):
    log.write_bytes(b"begins\nends \0badly\n")
    assert last_lines(job.pk, 1) == "begins\nends badly"


def test_a_reader_by_offset_comes_through_the_hole_to_the_end(log, job):
    write(log, 30 * MIB)
    cap(log)
    size = log.stat().st_size
    offset, texts = 0, []
    while offset < size:
        chunk = log_read(job, attempt=1, offset=offset)
        assert chunk.offset == offset
        assert chunk.end > offset
        assert len(chunk.text) <= MOST_BYTES + 100
        offset = chunk.end
        texts.append(chunk.text)
    assert offset == size
    whole = "".join(texts)
    assert whole.count("left out here") == 1
    assert "27 MB" in whole or "28 MB" in whole
    assert "\0" not in whole
    assert whole.endswith("the last line\n")
    assert log_read(job, attempt=1, offset=size).text == ""


def test_it_grows_on_and_is_cut_again(log):
    for _ in range(3):
        write(log, 10 * MIB)
        assert cap(log)
        assert log.stat().st_blocks * 512 <= 4 * MIB
    whole = b"".join(iter(WholeLog(log).read, b""))
    assert whole.count(b"left out here") == 1
