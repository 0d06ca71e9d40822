from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.models.functions import Now

from jobs.models.job import Job


class Submission(models.Model):
    """One wish for a job and the job that came of it, written together: who asks again is given the same."""

    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    key = models.CharField(max_length=64)
    """A hash of what names the wish, and of the wish."""
    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="+")
    at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = [models.UniqueConstraint(fields=["owner", "key"], name="submission_once")]

    def __str__(self) -> str:
        return f"submission of job {self.job_id}"
