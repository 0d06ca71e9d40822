"""The Celery app: a doorbell. The rows are the record, so a lost or doubled message changes nothing but the delay."""

from __future__ import annotations

import os
from typing import Any

from celery import Celery
from celery.signals import celeryd_after_setup, worker_ready
from kombu import Exchange, Queue

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")

app = Celery("fovea")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()


@celeryd_after_setup.connect
def listen_for_canary(instance: Any, **_about: Any) -> None:
    from jobs.canary import queue_name

    queue = Queue(queue_name(), routing_key=queue_name(), durable=False)
    instance.app.amqp.queues.select_add(queue)
    # The nameless exchange binds nothing, so that Redis keeps nothing of a worker that has gone.
    queue.exchange = Exchange("")


@worker_ready.connect
def watch_over_hearing(**_about: Any) -> None:
    from jobs.canary import keep_watch
    from jobs.tasks import ring_canary

    keep_watch(ring_canary)
