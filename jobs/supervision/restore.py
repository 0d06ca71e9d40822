"""``seq`` never goes back, even where a power cut took lines that were recorded already."""

from __future__ import annotations

import logging
import os
from datetime import UTC, datetime

from jobs.eventlog import last_whole_line
from wire.events import Envelope, Notice
from wire.layout import JobDir

log = logging.getLogger(__name__)


def fill_up_events(folder: JobDir, *, recorded_seq: int) -> int:
    """Stand-ins for the lines between the end of the file and the cursor, before a new attempt writes on.

    Without them the next attempt would use these numbers again, and be taken for known. Gives their number.
    """
    last_seq, end = last_whole_line(folder.events_path)
    if last_seq >= recorded_seq:
        return 0
    notice = Notice(
        level="warning",
        code="events.lost",
        text="This line was lost with the power of the machine; the database has what it said.",
    )
    now = datetime.now(UTC)
    with folder.events_path.open("ab") as file:
        file.truncate(end)
        for seq in range(last_seq + 1, recorded_seq + 1):
            file.write(Envelope(seq=seq, at=now, event=notice).model_dump_json().encode() + b"\n")
        file.flush()
        os.fsync(file.fileno())
    log.warning("job folder %s: events %s to %s were lost", folder.path.name, last_seq + 1, recorded_seq)
    return recorded_seq - last_seq
