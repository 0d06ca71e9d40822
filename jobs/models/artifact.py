from __future__ import annotations

from django.db import models
from django.db.models.functions import Now

from jobs.models.job import Job


class Artifact(models.Model):
    """Something a job made and announced. Never changed but for its trash mark."""

    made_by = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="artifacts")
    kind = models.CharField(max_length=20)
    name = models.CharField(max_length=120)
    path = models.CharField(max_length=300)
    """Relative to the job's folder."""
    sha256 = models.CharField(max_length=64)
    bytes = models.PositiveBigIntegerField()
    meta = models.JSONField(default=dict)
    created_at = models.DateTimeField(db_default=Now())
    trashed_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["made_by", "name"], name="artifact_name_once")]

    def __str__(self) -> str:
        return f"{self.kind} {self.name} of job {self.made_by_id}"


class JobInput(models.Model):
    """What a job reads: the lineage, and the reason why something may not be deleted."""

    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="inputs")
    artifact = models.ForeignKey(Artifact, on_delete=models.PROTECT, related_name="uses")
    role = models.CharField(max_length=20)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["job", "role"], name="input_role_once")]

    def __str__(self) -> str:
        return f"{self.role} of job {self.job_id}"
