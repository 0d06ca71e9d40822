"""``seq`` never goes back, even where a power cut took lines that were recorded already."""

from __future__ import annotations

import logging
import os
import shutil
from datetime import UTC, datetime

from jobs.eventlog import last_whole_line
from jobs.models import JobEvent
from jobs.supervision.patience import patiently
from wire.events import ENVELOPE, Envelope, Notice
from wire.layout import JobDir

log = logging.getLogger(__name__)


def fill_up_events(folder: JobDir, job_id: int, *, recorded_seq: int) -> int:
    """Put back the lines between the end of the file and the cursor, before a new attempt writes on.

    Without them the next attempt would use these numbers again, and be taken for known, and would not know the
    checkpoints that were announced there. The database has them all but curves and progress, for which there are
    stand-ins. Gives their number.
    """
    last_seq, end = last_whole_line(folder.events_path)
    if last_seq >= recorded_seq:
        return 0
    lost = range(last_seq + 1, recorded_seq + 1)
    known = patiently(lambda: _recorded(job_id, lost))
    stand_in = Notice(
        level="warning",
        code="events.lost",
        text="This line was lost with the power of the machine; the database has what it said.",
    )
    now = datetime.now(UTC)
    with folder.events_path.open("ab") as file:
        file.truncate(end)
        for seq in lost:
            envelope = known.get(seq) or Envelope(seq=seq, at=now, event=stand_in)
            file.write(envelope.model_dump_json().encode() + b"\n")
        file.flush()
        os.fsync(file.fileno())
    log.warning("job=%s: events %s to %s were lost, and are put back", job_id, lost[0], lost[-1])
    return len(lost)


def _recorded(job_id: int, seqs: range) -> dict[int, Envelope]:
    rows = JobEvent.objects.filter(job_id=job_id, seq__range=(seqs[0], seqs[-1]))
    return {
        row.seq: ENVELOPE.validate_python({"seq": row.seq, "at": row.at, "event": {"kind": row.kind, **row.body}})
        for row in rows
    }


def renew_events_file(folder: JobDir) -> None:
    """Let the log be another file with the same lines, so that what was written to the old one cannot reach it.

    On a shared file system the kernel of a host that was given up may still hold pages of the log that it has not sent.
    It sends them when it is back, over whatever stands at that place of that file. Readers open the log by its path.
    """
    path, copy = folder.events_path, folder.events_path.with_suffix(".tmp")
    if not path.exists():
        return
    with path.open("rb") as old, copy.open("wb") as new:
        shutil.copyfileobj(old, new)
        new.flush()
        os.fsync(new.fileno())
    copy.replace(path)
    parent = os.open(folder.path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(parent)
    finally:
        os.close(parent)
