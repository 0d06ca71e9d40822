"""Ends this process before its lease can run out, so that another host may start the job anew.

On a database that several hosts share, a supervisor that cannot renew the lease of its attempt cannot be told to
stop, and cannot tell its trainer. So the trainer looks after that itself. It reads from the beat file until when it
may work:

1. ``save_at_s``: it is asked to stop as a person would, finishes its step, saves and ends.
2. ``end_at_s``: it is killed. By the kernel, with a timer whose signal no handler catches: a thread that holds the
   interpreter, a file system that does not answer, or a step that does not end cannot keep it alive. A process that
   was frozen (SIGSTOP) and goes on after that moment dies of the pending signal before its next instruction. A thread
   does the same by CLOCK_BOOTTIME, because the kernel's timer stands still while the machine sleeps, and takes along
   what this process has started.

The timer is set before the job's folder is touched, and the clock is read again after it was set: there is no moment
at which a frozen process could miss it. What is left: a virtual machine that is paused as a whole sees no time pass.
When it goes on, its trainer may write into the job's folder until its watch has looked, for a fraction of a second;
its rows are refused (``jobs.leases``), and where the shared file system lets its hosts see one another's locks,
nobody has started.
"""

from __future__ import annotations

import os
import signal
import threading
import time

from engine.stop import Stop
from wire.beat import LEASED, Deadlines, boot_clock_s, read_deadlines
from wire.layout import AttemptDir

_LOOKS = 50
"""At the clock and at the file, until the first deadline: how late something is noticed is little beside it."""


class LeaseOver(Exception):
    """There is no time left in which this process may work."""


class Lease:
    def __init__(self, attempt: AttemptDir) -> None:
        """Read the deadlines, and set the timer that ends this process.

        Raises:
            LeaseOver: the end has passed, or nobody said when it is.
        """
        self._path = attempt.beat_path
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGALRM})
        found = read_deadlines(self._path)
        if found is None:
            raise LeaseOver(f"{self._path} does not say until when")
        self._deadlines = found
        self._pause_s = min(0.5, max(0.02, (found.end_at_s - boot_clock_s()) / _LOOKS))
        if not _arm(found):
            raise LeaseOver(f"{self._path} names a moment that has passed")

    @classmethod
    def of(cls, attempt: AttemptDir) -> Lease | None:
        """None where no lease is asked for.

        Raises:
            LeaseOver: the end has passed, or nobody said when it is.
        """
        return cls(attempt) if os.environ.get(LEASED) else None

    def watch(self, stop: Stop) -> None:
        """Ask ``stop`` and end the process in time, for as long as it lives."""
        # Two, because the reading may hang with the file system, and the watching may not.
        for name, work in (("lease-read", self._read), ("lease-watch", lambda: self._watch(stop))):
            threading.Thread(target=work, name=name, daemon=True).start()

    def _read(self) -> None:
        while True:
            time.sleep(self._pause_s)
            found = read_deadlines(self._path)
            if found is None or found.end_at_s <= self._deadlines.end_at_s:
                continue
            if not _arm(found):
                _end()
            self._deadlines = found

    def _watch(self, stop: Stop) -> None:
        while True:
            time.sleep(self._pause_s)
            deadlines, now_s = self._deadlines, boot_clock_s()
            if now_s >= deadlines.end_at_s:
                _end()
            if now_s >= deadlines.save_at_s and not stop.asked:
                stop.ask_unattended()


def _arm(deadlines: Deadlines) -> bool:
    """Set the timer; False where the end has passed."""
    left_s = deadlines.end_at_s - boot_clock_s()
    if left_s > 0:
        signal.setitimer(signal.ITIMER_REAL, left_s)
    # Asked again: it may have been frozen between the look at the clock and the setting of the timer.
    return boot_clock_s() < deadlines.end_at_s


def _end() -> None:
    """With the whole group where this process leads it, as one that a supervisor started does."""
    if os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os._exit(os.EX_TEMPFAIL)
