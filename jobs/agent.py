"""The host's own hand: does every two seconds what Celery rings for, so that nothing depends on Redis."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from django.db import Error as DatabaseError

from jobs.database import let_go_if_broken
from jobs.devices import DeviceWatch
from jobs.dispatch import dispatch
from jobs.hosts import HostSign
from jobs.reconcile import reconcile
from jobs.services.power import trainings_resume
from jobs.signs import say_alive
from jobs.suspension import lift_if_left_over
from jobs.takeover import TakeOver

EVERY_S = 2.0

log = logging.getLogger(__name__)


class Agent:
    def __init__(self) -> None:
        self._sign = HostSign()
        self._devices = DeviceWatch()
        self._takeover = TakeOver()
        self._ended = threading.Event()
        self._ailing: set[str] = set()

    def run(self) -> None:
        """Until ``stop``. Supervisors and trainings are left alone: they need no agent."""
        while not self._ended.is_set():
            self.turn()
            self._ended.wait(EVERY_S)

    def stop(self) -> None:
        self._ended.set()

    def turn(self) -> None:
        say_alive("agent")
        self._try("host", self._sign.say)
        self._try("devices", self._devices.look)
        self._try("reconcile", reconcile)
        self._try("takeover", self._takeover.look)
        self._try("suspension", lift_if_left_over)
        self._try("resume", trainings_resume)
        self._try("dispatch", dispatch)

    def _try(self, what: str, action: Callable[[], object]) -> None:
        """Do one thing. Whatever stops it is said once, and tried again next time: the other things are done too."""
        try:
            action()
        except (DatabaseError, OSError) as error:
            if what not in self._ailing:
                log.warning("%s failed, trying again: %s", what, error)
            self._ailing.add(what)
            # One that works is kept: while the database has none to give, this host is looked after by it.
            let_go_if_broken()
        except Exception:
            if what not in self._ailing:
                log.exception("%s failed, trying again", what)
            self._ailing.add(what)
        else:
            self._ailing.discard(what)
