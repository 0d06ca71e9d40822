"""The Celery app: a doorbell. The rows are the record, so a lost or doubled message changes nothing but the delay."""

from __future__ import annotations

import os

from celery import Celery

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")

app = Celery("fovea")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()
