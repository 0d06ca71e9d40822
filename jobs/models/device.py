from __future__ import annotations

from django.db import models
from django.db.models.functions import Now

from jobs.models.job import Attempt


class Host(models.Model):
    """A machine whose agent works for this installation."""

    name = models.CharField(max_length=200, unique=True)
    boot_id = models.CharField(max_length=64, blank=True, default="")
    seen_at = models.DateTimeField()
    """In the time of the database."""
    clock_ahead_s = models.FloatField(default=0.0)
    """Its clock against the database's, when it was last seen."""
    versions = models.JSONField(default=dict)
    joined_at = models.DateTimeField(db_default=Now())

    def __str__(self) -> str:
        return self.name


class Device(models.Model):
    """A GPU, known by its UUID, or one CPU slot of a host (``cpu:<host>:0``)."""

    host = models.CharField(max_length=200)
    uuid = models.CharField(max_length=120, unique=True)
    kind = models.CharField(max_length=8, choices=[("cuda", "GPU"), ("cpu", "CPU")])
    name = models.CharField(max_length=120)
    memory_bytes = models.PositiveBigIntegerField(default=0)
    driver = models.CharField(max_length=40, blank=True, default="")
    drained = models.BooleanField(default=False)
    """Out of service: nothing new is placed on it."""
    drained_reason = models.CharField(max_length=300, blank=True, default="", db_default="")
    lost = models.BooleanField(default=False, db_default=False)
    """It does not compute any more: what uses it has to leave it."""
    warning = models.CharField(max_length=300, blank=True, default="", db_default="")
    """What is not as it should be, and keeps nobody from using it."""
    strangers = models.JSONField(default=list, db_default=[])
    """Processes on it that no job of this server started: ``[{"pid": 1, "name": "python", "memory_bytes": 1}]``."""
    seen_at = models.DateTimeField()
    memory_used_bytes = models.PositiveBigIntegerField(default=0)
    utilisation_pct = models.FloatField(null=True)
    temperature_c = models.FloatField(null=True)
    power_w = models.FloatField(null=True)
    bf16 = models.BooleanField(default=False)
    """Whether the device has units for bfloat16, which is what precision "auto" asks."""

    def __str__(self) -> str:
        return f"{self.name} on {self.host}"

    @property
    def is_usable(self) -> bool:
        """Whether something may be placed on it, as far as the device itself is concerned."""
        return not self.drained and not self.strangers


class DeviceLease(models.Model):
    """Who may use a device. The row's existence is the lease; ``expires_at`` is in database time."""

    device = models.OneToOneField(Device, on_delete=models.CASCADE, related_name="lease")
    attempt = models.ForeignKey(Attempt, on_delete=models.CASCADE, related_name="leases")
    share = models.FloatField(default=1.0)
    expires_at = models.DateTimeField()

    def __str__(self) -> str:
        return f"{self.device_id} for {self.attempt_id}"


class DeviceSample(models.Model):
    """What the agent read of a device, every half minute."""

    device = models.ForeignKey(Device, on_delete=models.CASCADE, related_name="samples")
    at = models.DateTimeField()
    memory_used_bytes = models.PositiveBigIntegerField()
    utilisation_pct = models.FloatField(null=True)
    temperature_c = models.FloatField(null=True)
    power_w = models.FloatField(null=True)

    class Meta:
        indexes = [models.Index(fields=["device", "-at"], name="sample_by_device")]

    def __str__(self) -> str:
        return f"{self.device_id} at {self.at}"
