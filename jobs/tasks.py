"""What Celery does: it rings. Every task may be lost or doubled; the agent does the same every two seconds."""

from __future__ import annotations

import logging
from typing import Any

from celery import Task, current_app, shared_task
from django.conf import settings
from kombu import Queue
from kombu.exceptions import KombuError
from redis.exceptions import RedisError

from jobs import stream
from jobs.canary import heard, queue_name
from jobs.dispatch import dispatch as start_what_can_start
from jobs.housekeeping import housekeep as tidy
from jobs.reconcile import reconcile

log = logging.getLogger(__name__)


@shared_task(acks_late=False, ignore_result=True, soft_time_limit=45, time_limit=60)
def dispatch() -> None:
    if settings.STARTS_JOBS:
        start_what_can_start()


@shared_task(acks_late=False, ignore_result=True, soft_time_limit=240, time_limit=300)
def housekeep() -> None:
    if settings.STARTS_JOBS:
        reconcile()
    tidy()


@shared_task(acks_late=False, ignore_result=True, time_limit=30)
def canary() -> None:
    heard()


def ring_canary() -> bool:
    """To the worker that this is called in, and no other. False where Redis is away."""
    to_itself = Queue(queue_name(), durable=False)
    return stream.reachable() and _sent(canary, queue=to_itself, expires=settings.CANARY_PATIENCE_S)


def ring() -> None:
    """Ask for a dispatch now. Returns within about 0.3 s, and silently, where nobody can hear it."""
    if not current_app.conf.broker_url or not stream.reachable():
        return
    _sent(dispatch)


def _sent(task: Task[[], None], **options: Any) -> bool:
    try:
        task.apply_async(retry=False, **options)
    except (KombuError, RedisError, OSError) as error:
        log.info("%s not rung: %s", task.name, error)
        return False
    return True
