from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.models.functions import Now

from jobs.states import ResumesWhen, Status


class Job(models.Model):
    """One thing to do, from the wish to its end, over as many attempts as that takes. The row is the record."""

    verb = models.CharField(max_length=16)
    status = models.CharField(max_length=12, choices=[(s.value, s.name.title()) for s in Status], default=Status.QUEUED)
    spec = models.JSONField()
    title = models.CharField(max_length=200)
    notes = models.TextField(blank=True, default="")
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="jobs")
    private = models.BooleanField(default=False)
    priority = models.SmallIntegerField(default=0)
    wants = models.JSONField(default=list)
    """Device UUIDs asked for; ``["any"]`` takes the first free one, an empty list needs none."""
    created_at = models.DateTimeField(db_default=Now())
    started_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)
    last_seq = models.PositiveBigIntegerField(default=0)
    """Cursor of the recorder: every event up to here is in the database."""
    stage = models.CharField(max_length=40, blank=True, default="")
    done = models.PositiveBigIntegerField(default=0)
    total = models.PositiveBigIntegerField(default=0)
    best_series = models.CharField(max_length=80, blank=True, default="")
    best_value = models.FloatField(null=True)
    best_step = models.PositiveBigIntegerField(null=True)
    error_code = models.CharField(max_length=60, blank=True, default="")
    error_message = models.TextField(blank=True, default="")
    error_hint = models.TextField(blank=True, default="")
    wait_reason = models.CharField(max_length=300, blank=True, default="")
    resumes_when = models.CharField(
        max_length=8,
        blank=True,
        default="",
        db_default="",
        choices=[(cause.value, cause.name.title()) for cause in ResumesWhen],
    )
    """Of a paused job: what it waits for. Empty where a person paused it, and a person resumes it."""
    retry_of = models.ForeignKey("self", null=True, on_delete=models.SET_NULL, related_name="retries")
    part_of = models.ForeignKey("self", null=True, on_delete=models.CASCADE, related_name="parts")
    """The run whose evaluation, classification or export this is: seen on its page, deleted with it."""
    disk_bytes = models.PositiveBigIntegerField(default=0)
    trashed_at = models.DateTimeField(null=True)
    """The same moment for all that one deletion took along, so that it comes back together."""
    trashed_by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+")

    class Meta:
        constraints = [
            models.CheckConstraint(condition=models.Q(status__in=[s.value for s in Status]), name="job_status_known"),
        ]
        indexes = [
            models.Index(fields=["verb", "-created_at"], name="job_by_verb"),
            models.Index(fields=["status"], name="job_by_status"),
        ]

    def __str__(self) -> str:
        return f"{self.title} (#{self.pk}, {self.status})"


class Attempt(models.Model):
    """One process that worked on a job. Crash-resume and pause-resume are new attempts of the same job."""

    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="attempts")
    n = models.PositiveIntegerField()
    fence = models.PositiveBigIntegerField()
    """Grows with every claim of the job; a write that carries an older one is refused."""
    host = models.CharField(max_length=200)
    boot_id = models.CharField(max_length=64, blank=True, default="")
    supervisor_pid = models.PositiveIntegerField(null=True)
    supervisor_started = models.BigIntegerField(null=True)
    """Field 22 of /proc/<pid>/stat, in clock ticks since boot: with ``boot_id`` and pid it names one process."""
    pid = models.PositiveIntegerField(null=True)
    pid_started = models.BigIntegerField(null=True)
    from_step = models.PositiveBigIntegerField(default=0)
    started_seq = models.PositiveBigIntegerField(null=True)
    """``seq`` of this attempt's ``attempt.started``."""
    steps_per_epoch = models.PositiveIntegerField(default=0)
    total_steps = models.PositiveBigIntegerField(default=0)
    heartbeat_at = models.DateTimeField(null=True)
    """When the supervisor last renewed its hold, in the time of the database."""
    lease_expires_at = models.DateTimeField(null=True)
    """Null where the trainer goes on without the database, so that nobody may take the job over by the clock alone."""
    started_at = models.DateTimeField(db_default=Now())
    ended_at = models.DateTimeField(null=True)
    exit_code = models.IntegerField(null=True)
    signal = models.IntegerField(null=True)
    reason = models.CharField(max_length=300, blank=True, default="")
    devices = models.JSONField(default=list)
    """Names of the devices it held, kept because the leases go when it ends."""

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["job", "n"], name="attempt_once"),
            models.UniqueConstraint(
                fields=["job"], condition=models.Q(ended_at__isnull=True), name="attempt_one_open_per_job"
            ),
        ]

    def __str__(self) -> str:
        return f"attempt {self.n} of job {self.job_id}"


class JobEvent(models.Model):
    """Every event but scalars and progress, as it was written."""

    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="events")
    seq = models.PositiveBigIntegerField()
    at = models.DateTimeField()
    kind = models.CharField(max_length=32)
    body = models.JSONField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["job", "seq"], name="event_once")]

    def __str__(self) -> str:
        return f"{self.kind} ({self.job_id}:{self.seq})"


class Transition(models.Model):
    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="transitions")
    before = models.CharField(max_length=12)
    after = models.CharField(max_length=12)
    reason = models.CharField(max_length=300, blank=True, default="")
    at = models.DateTimeField(db_default=Now())

    def __str__(self) -> str:
        return f"{self.before} -> {self.after}"
