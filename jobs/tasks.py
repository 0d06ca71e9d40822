"""What Celery does: it rings. Every task may be lost or doubled; the agent does the same every two seconds."""

from __future__ import annotations

import logging

from celery import current_app, shared_task
from kombu.exceptions import KombuError
from redis.exceptions import RedisError

from jobs import stream
from jobs.dispatch import dispatch as start_what_can_start
from jobs.housekeeping import housekeep as tidy
from jobs.reconcile import reconcile

log = logging.getLogger(__name__)


@shared_task(acks_late=False, ignore_result=True, soft_time_limit=45, time_limit=60)
def dispatch() -> None:
    start_what_can_start()


@shared_task(acks_late=False, ignore_result=True, soft_time_limit=240, time_limit=300)
def housekeep() -> None:
    reconcile()
    tidy()


def ring() -> None:
    """Ask for a dispatch now. Returns within about 0.3 s, and silently, where nobody can hear it."""
    if not current_app.conf.broker_url or not stream.reachable():
        return
    try:
        dispatch.apply_async(retry=False)
    except (KombuError, RedisError, OSError) as error:
        log.info("dispatch not rung: %s", error)
