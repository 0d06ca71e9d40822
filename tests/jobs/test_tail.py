from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.eventlog import last_whole_line, lines_after, offset_after, seq_of
from jobs.recorder import replay
from jobs.supervision.restore import fill_up_events, renew_events_file
from jobs.tail import Tail
from wire.events import ArtifactMade, AttemptStarted, Envelope, Notice, Progress, SeriesInfo
from wire.layout import JobDir

RUBBISH = [b"", b'{"seq":999,"at', b"\0" * 90 + b"\n", b"\0" * 9000, b"x" * 70_000]
"""What a crash or a power cut may leave at the end."""


def lines(count, *, text="é" * 40):
    at = datetime(2026, 1, 2, tzinfo=UTC)
    events = (Envelope(seq=seq, at=at, event=Notice(level="info", code="c", text=text)) for seq in range(1, count + 1))
    return [envelope.model_dump_json().encode() + b"\n" for envelope in events]


@given(st.lists(st.integers(0, 900), max_size=30), st.integers(0, 12))
def test_every_event_once_whatever_the_chunks(tmp_path_factory, cuts, after):
    path = tmp_path_factory.mktemp("tail") / "events.jsonl"
    content = b"".join(lines(12))
    tail = Tail(path, after=after)
    seen = tail.read()
    at = 0
    for cut in sorted({min(cut * 4, len(content)) for cut in cuts} | {len(content)}):
        with path.open("ab") as file:
            file.write(content[at:cut])
        at = cut
        seen += tail.read()
    assert [envelope.seq for envelope in seen] == list(range(after + 1, 13))
    assert not tail.has_more()


def test_it_goes_on_where_a_damaged_end_was_cut_off(tmp_path):
    path = tmp_path / "events.jsonl"
    good = lines(4)
    path.write_bytes(b"".join(good[:2]) + b"\0" * 50 + b"\n")
    tail = Tail(path, after=0)
    assert [envelope.seq for envelope in tail.read()] == [1, 2]
    assert tail.damaged
    assert tail.read() == []
    path.write_bytes(b"".join(good))
    assert [envelope.seq for envelope in tail.read()] == [3, 4]
    assert not tail.damaged


def test_no_file_yet(tmp_path):
    tail = Tail(tmp_path / "events.jsonl", after=0)
    assert not tail.has_more()
    assert tail.read() == []


@given(st.lists(st.integers(0, 400), min_size=1, max_size=120), st.integers(0, 130), st.sampled_from(RUBBISH))
def test_the_offset_of_any_seq_is_found(tmp_path_factory, widths, after, rubbish):
    path = tmp_path_factory.mktemp("log") / "events.jsonl"
    whole = [line for width, line in zip(widths, lines_of(widths), strict=True)]
    path.write_bytes(b"".join(whole) + rubbish)
    with path.open("rb") as file:
        assert offset_after(file, after) == sum(len(line) for line in whole[:after])
    found = [seq_of(line + b"\n") for line in lines_after(path, after, until=10**9, limit=50)]
    assert found == list(range(after + 1, len(widths) + 1))[:50]


def lines_of(widths):
    at = datetime(2026, 1, 2, tzinfo=UTC)
    for seq, width in enumerate(widths, 1):
        event = Notice(level="info", code="c", text="x" * width)
        yield Envelope(seq=seq, at=at, event=event).model_dump_json().encode() + b"\n"


def test_a_long_file_is_not_read_from_its_beginning(tmp_path):
    path = tmp_path / "events.jsonl"
    content = lines(40_000)
    path.write_bytes(b"".join(content))

    class Counting:
        def __init__(self, file):
            self.file, self.n_lines = file, 0

        def seek(self, *place):
            return self.file.seek(*place)

        def readline(self):
            self.n_lines += 1
            return self.file.readline()

        def __iter__(self):
            for line in self.file:
                self.n_lines += 1
                yield line

    with path.open("rb") as file:
        counting = Counting(file)
        assert offset_after(counting, 31_234) == sum(len(line) for line in content[:31_234])
    assert counting.n_lines < 100


@pytest.mark.parametrize("until", [0, 5, 12])
def test_events_past_the_cursor_are_not_given(tmp_path, until):
    path = tmp_path / "events.jsonl"
    path.write_bytes(b"".join(lines(12)))
    assert len(list(lines_after(path, 0, until=until, limit=100))) == until


@given(st.integers(0, 300), st.integers(0, 400), st.sampled_from(RUBBISH))
def test_the_last_whole_line_is_found_under_any_rubbish(tmp_path_factory, count, width, rubbish):
    path = tmp_path_factory.mktemp("log") / "events.jsonl"
    content = b"".join(lines(count, text="x" * width))
    path.write_bytes(content + rubbish)
    assert last_whole_line(path) == (count, len(content))


@pytest.mark.django_db
def test_lost_lines_are_put_back_as_they_were_or_stood_in_for(tmp_path, make_job):
    job, folder = make_job(), JobDir(tmp_path)
    at = datetime(2026, 1, 2, tzinfo=UTC)
    made = ArtifactMade(artifact="checkpoint", name="step-7", path="x.pt", sha256="0", bytes=1, meta={"step": 7})
    told = [
        *(Notice(level="info", code="c", text="x") for _ in range(5)),
        AttemptStarted(n=2, series=(SeriesInfo(name="train/loss"),)),
        Progress(stage="train", done=7, total=9),
        made,
    ]
    envelopes = [Envelope(seq=seq, at=at, event=event) for seq, event in enumerate(told, 1)]
    replay(job.pk, envelopes)
    for content in (b"".join(lines(5)) + b'{"seq":6,"a', b""):
        folder.events_path.write_bytes(content)
        assert fill_up_events(folder, job.pk, recorded_seq=8) == 8 - content.count(b"\n")
        found = Tail(folder.events_path, after=0).read()
        assert [envelope.seq for envelope in found] == list(range(1, 9))
        assert [found[5], found[7]] == [envelopes[5], envelopes[7]]
        assert found[6].event.code == "events.lost"
    before = folder.events_path.read_bytes()
    assert fill_up_events(folder, job.pk, recorded_seq=8) == 0
    assert folder.events_path.read_bytes() == before


def test_what_a_lost_host_still_writes_reaches_no_renewed_log(tmp_path):
    folder = JobDir(tmp_path)
    renew_events_file(folder)
    assert not folder.events_path.exists()
    content = b"".join(lines(9))
    folder.events_path.write_bytes(content)
    tail = Tail(folder.events_path, after=0)
    assert len(tail.read()) == 9
    with folder.events_path.open("r+b") as of_the_lost_host:
        renew_events_file(folder)
        of_the_lost_host.write(b"\0" * 5000)
    assert folder.events_path.read_bytes() == content
    assert not tail.has_more()
    assert list(tmp_path.iterdir()) == [folder.events_path]
