"""Looks after one attempt from its start to its verdict, in a process that outlives web, worker and agent.

All it knows is in rows and files, so it may be killed at any moment, and another one goes on where it was.
"""

from __future__ import annotations

import logging
import signal
import time
from collections.abc import Callable
from contextlib import suppress

from django.conf import settings

from jobs import launch, leases
from jobs.dispatch import dispatch
from jobs.leases import Superseded
from jobs.models import Attempt, DeviceLease, Job
from jobs.process import locked
from jobs.recorder import StaleFence, record
from jobs.states import Status
from jobs.storage import storage
from jobs.supervision import doctor
from jobs.supervision.beat import Beat
from jobs.supervision.disk import keep_taken_bytes
from jobs.supervision.ending import close_by_exit, close_by_fault, read_exit_report
from jobs.supervision.engine import Engine, Exit, StartedEngine, find_engine
from jobs.supervision.feed import StreamFeed
from jobs.supervision.neighbours import COUNT_EVERY_S, Neighbours
from jobs.supervision.own_log import keep_own_log
from jobs.supervision.patience import patiently
from jobs.supervision.restore import fill_up_events, renew_events_file
from jobs.supervision.spec import write_spec
from jobs.tail import Tail

POLL_S = 0.02
"""How soon a new line is noticed."""
LOOK_FOR_WISH_EVERY_S = 0.25
MEASURE_EVERY_S = 30.0
GRACE_S = 60.0
"""From SIGTERM to SIGKILL."""

log = logging.getLogger(__name__)


def supervise(attempt_id: int) -> None:
    """Be the supervisor of an attempt until it is closed; return at once where it has one."""
    # Inherited from a Celery child SIGINT would be ignored, here and in the engine.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    attempt = patiently(lambda: launch.claim(attempt_id))
    if attempt is None:
        return
    keep_own_log(attempt)
    supervisor = _Supervisor(attempt)
    try:
        supervisor.run()
    except Superseded:
        log.warning("attempt=%s has another supervisor now", attempt_id)
        return
    except (StaleFence, Job.DoesNotExist):
        log.warning("attempt=%s is not wanted any more", attempt_id)
        supervisor.kill_engine()
        return
    except Exception as fault:
        log.exception("attempt=%s cannot be supervised", attempt_id)
        supervisor.kill_engine()
        error = fault  # the name ends with the block
        patiently(lambda: close_by_fault(attempt, error))
    patiently(dispatch)


class _Supervisor:
    def __init__(self, attempt: Attempt) -> None:
        self._attempt = attempt
        self._job_dir = storage().job(attempt.job_id)
        self._dir = self._job_dir.attempt(attempt.n)
        recorded_seq = attempt.job.last_seq
        self._tail = Tail(self._job_dir.events_path, after=recorded_seq)
        self._feed = StreamFeed(attempt.job_id, self._job_dir.events_path, recorded_seq=recorded_seq)
        self._engine: Engine | None = None
        self._doctor: doctor.Doctor | None = None
        self._write_at = 0.0
        self._wish = _Wish()
        self._neighbours = Neighbours()
        self._is_leased = attempt.lease_expires_at is not None
        self._beat = Beat(self._dir.beat_path, is_leased=self._is_leased, end_engine=self.kill_engine)
        self._renew_if_due = _Every(leases.renewal_pause_s(), self._renew)

    def run(self) -> None:
        self._dir.path.mkdir(parents=True, exist_ok=True)
        # Before all else: a trainer that lost its supervisor has not long to live.
        self._renew_if_due()
        self._beat.start()
        try:
            self._engine = self._find()
            if self._engine is None:
                # What earlier attempts said is recorded before a new one says anything.
                self._pump_all()
                self._engine = self._start()
            how = self._watch(self._engine) if self._engine else Exit(note="was never started")
            self._pump_all()
        finally:
            self._beat.stop()
            if self._doctor:
                self._doctor.close()
        log.info("ended job=%s attempt=%s: its process %s", self._attempt.job_id, self._attempt.n, how)
        found = self._doctor.found(how, read_exit_report(self._attempt)) if self._doctor else None
        patiently(lambda: close_by_exit(self._attempt, how, found, only=leases.supervised_as(self._attempt)))
        self._feed.finish()

    def kill_engine(self) -> None:
        if self._engine is not None:
            self._engine.send(signal.SIGKILL)

    def _find(self) -> Engine | None:
        """The process that an earlier supervisor of this attempt started."""
        engine = find_engine(self._attempt)
        if engine is not None:
            pid = engine.identity.pid
            log.info("adopted job=%s attempt=%s pid=%s", self._attempt.job_id, self._attempt.n, pid)
        return engine

    def _start(self) -> Engine | None:
        """A new process; None where it is not wanted any more, or the job's folder is not free."""
        if read_exit_report(self._attempt) is not None or self._status() is not Status.STARTING:
            return None
        with locked(self._job_dir.lock_path) as is_free:
            if not is_free:
                log.error("job=%s: a process that no attempt knows holds its folder", self._attempt.job_id)
                return None
            # Asked while nobody else can begin to write here: this process may have been frozen for hours before.
            self._renew()
            write_spec(self._attempt.job, self._job_dir)
            self._restore_events()
        engine = self._engine = StartedEngine(self._attempt, patiently(self._gpu_uuids))
        columns = {"pid": engine.identity.pid, "pid_started": engine.identity.started}
        if not patiently(lambda: leases.held(self._attempt).update(**columns)):
            raise patiently(lambda: leases.refusal(self._attempt))
        log.info("started job=%s attempt=%s pid=%s", self._attempt.job_id, self._attempt.n, engine.identity.pid)
        return engine

    def _restore_events(self) -> None:
        if self._is_leased:
            renew_events_file(self._job_dir)
        recorded_seq = self._recorded_seq()
        if fill_up_events(self._job_dir, self._attempt.job_id, recorded_seq=recorded_seq):
            self._tail = Tail(self._job_dir.events_path, after=recorded_seq)  # the old one stood before those lines

    def _recorded_seq(self) -> int:
        rows = Job.objects.values_list("last_seq", flat=True)
        return patiently(lambda: rows.get(pk=self._attempt.job_id))

    def _gpu_uuids(self) -> list[str]:
        leases = DeviceLease.objects.filter(attempt=self._attempt, device__kind="cuda")
        return list(leases.values_list("device__uuid", flat=True))

    def _watch(self, engine: Engine) -> Exit:
        look_for_wish = _Every(LOOK_FOR_WISH_EVERY_S, lambda: self._obey(engine))
        measure = _Every(MEASURE_EVERY_S, self._measure)
        count = _Every(COUNT_EVERY_S, self._neighbours.count)
        self._doctor = watching = doctor.Doctor(self._attempt, engine)
        examine = _Every(doctor.LOOK_EVERY_S, lambda: watching.look(is_stopping=self._wish.was_told))
        while True:
            # Asked before reading: what is read after the end is all there is.
            how = engine.poll()
            if how is not None:
                return how
            self._pump()
            look_for_wish()
            self._renew_if_due()
            measure()
            count()
            examine()
            time.sleep(POLL_S)

    def _pump_all(self) -> None:
        self._write_at = 0.0
        while self._pump():
            self._renew_if_due()
            self._write_at = 0.0

    def _pump(self) -> int:
        """Record and publish what is new, if it is time. Gives the number of events."""
        began = time.monotonic()
        if began < self._write_at:
            return 0
        envelopes = self._tail.read() if self._tail.has_more() else []
        if envelopes:
            patiently(lambda: record(self._attempt, envelopes))
        # All of them: to a second try, whose first was committed and could not say so, none is new.
        self._feed.push(envelopes)
        if self._doctor:
            self._doctor.saw(envelopes)
        if envelopes:
            ended = time.monotonic()
            self._write_at = ended + self._neighbours.pause_s(ended - began)
        return len(envelopes)

    def _status(self) -> Status:
        rows = Job.objects.values_list("status", flat=True)
        return Status(patiently(lambda: rows.get(pk=self._attempt.job_id)))

    def _obey(self, engine: Engine) -> None:
        """Pass on the wish to stop: said once by file and SIGTERM, and by SIGKILL when the grace is over."""
        status = self._status()
        if status not in {Status.CANCELLING, Status.PAUSING}:
            return
        if self._wish.is_new(status):
            # On a full disk the signal alone has to do: it saves what it can, and the row says what was meant.
            with suppress(OSError):
                self._dir.stop_path.write_text("cancel" if status is Status.CANCELLING else "pause")
            log.info("stopping job=%s attempt=%s: %s", self._attempt.job_id, self._attempt.n, status)
            engine.send(signal.SIGTERM)
        elif self._wish.is_overdue():
            log.warning("killing job=%s attempt=%s", self._attempt.job_id, self._attempt.n)
            engine.send(signal.SIGKILL)

    def _renew(self) -> None:
        self._beat.renewed(patiently(lambda: leases.renew(self._attempt)))

    def _measure(self) -> None:
        patiently(lambda: keep_taken_bytes(self._attempt, self._job_dir.path))


class _Wish:
    """What the engine was told, and when."""

    def __init__(self) -> None:
        self._told: Status | None = None
        self._told_at = 0.0

    @property
    def was_told(self) -> bool:
        return self._told is not None

    def is_new(self, status: Status) -> bool:
        if status is self._told:
            return False
        if self._told is None:
            self._told_at = time.monotonic()
        self._told = status
        return True

    def is_overdue(self) -> bool:
        return time.monotonic() - self._told_at > getattr(settings, "STOP_GRACE_S", GRACE_S)


class _Every:
    """Calls through at most once in ``interval_s``; the first time at once."""

    def __init__(self, interval_s: float, action: Callable[[], None]) -> None:
        self._interval_s = interval_s
        self._action = action
        self._due_at = 0.0

    def __call__(self) -> None:
        now = time.monotonic()
        if now >= self._due_at:
            self._due_at = now + self._interval_s
            self._action()
