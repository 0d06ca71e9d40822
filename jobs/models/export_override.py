from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.models.functions import Now

from jobs.models.job import Job


class ExportOverride(models.Model):
    """Somebody answers for an export that failed its verification: it may be handed out all the same."""

    job = models.OneToOneField(Job, on_delete=models.CASCADE, related_name="override")
    by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    at = models.DateTimeField(db_default=Now())
    reason = models.CharField(max_length=500)

    def __str__(self) -> str:
        return f"override of job {self.job_id}"
