from __future__ import annotations

from django.db import models

from jobs.models.job import Job


class Series(models.Model):
    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="series")
    name = models.CharField(max_length=80)
    unit = models.CharField(max_length=20, blank=True, default="")
    better = models.CharField(max_length=8, blank=True, default="")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["job", "name"], name="series_once")]

    def __str__(self) -> str:
        return f"{self.name} of job {self.job_id}"


class Curve(models.Model):
    """A block of at most 512 points of one series, packed as (seq, step, time, value), in the order of ``seq``.

    Thinned when read, never when written. Superseded points stay; the reader leaves them out.
    """

    series = models.ForeignKey(Series, on_delete=models.CASCADE, related_name="blocks")
    block = models.PositiveIntegerField()
    count = models.PositiveIntegerField()
    payload = models.BinaryField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["series", "block"], name="curve_block_once")]

    def __str__(self) -> str:
        return f"block {self.block} of series {self.series_id}"
