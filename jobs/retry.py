"""How often, and how soon, a job whose process was lost is tried again."""

from __future__ import annotations

from datetime import datetime, timedelta

from jobs.models import Attempt, Job, JobEvent

MOST_FRUITLESS = 5
DELAYS_S = (0, 5, 20, 60)
"""Before the attempt after the first, second ... fruitless one."""
LOST = "lost"
INTERRUPTED = "interrupted"
"""How ``Attempt.reason`` begins when the attempt neither finished nor was asked to stop."""
LEFT_DEVICE = "device lost"
"""How it begins when a device failed, and was taken out of service: it counts neither for the job nor against it."""


def n_fruitless(job_id: int, kinds: tuple[str, ...] = (LOST, INTERRUPTED)) -> int:
    """Latest ended attempts in a row that ended so without having made anything durable; so: they were lost."""
    made_seq = (
        JobEvent.objects.filter(job_id=job_id, kind="artifact.made")
        .order_by("-seq")
        .values_list("seq", flat=True)
        .first()
    )
    count = 0
    for attempt in Attempt.objects.filter(job_id=job_id, ended_at__isnull=False).order_by("-n"):
        got_further = made_seq is not None and attempt.started_seq is not None and attempt.started_seq < made_seq
        if not got_further and attempt.reason.startswith(LEFT_DEVICE):
            continue
        if got_further or not attempt.reason.startswith(kinds):
            break
        count += 1
    return count


def not_before(job: Job) -> datetime | None:
    """The earliest time of the next attempt; None where it may start at once."""
    last = Attempt.objects.filter(job=job, ended_at__isnull=False).order_by("-n").first()
    if last is None or last.ended_at is None:
        return None
    delay_s = DELAYS_S[min(max(n_fruitless(job.pk) - 1, 0), len(DELAYS_S) - 1)]
    return last.ended_at + timedelta(seconds=delay_s) if delay_s else None
