"""Starts what can start on this host, oldest first. May be called by anybody, at any time, and twice at once."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import timedelta

from django.db import transaction
from django.db.models import Max
from django.db.models.functions import Coalesce, Now
from django.utils import timezone

from jobs import launch, retry, suspension, transitions
from jobs.devices import DeviceWatch, cpu_slot, present
from jobs.host import host_name
from jobs.models import Attempt, Device, DeviceLease, Job
from jobs.states import Status

MOST_IMPORTS = 2
LEASE = timedelta(minutes=1)
"""Renewed by the supervisor; counted in the time of the database."""

log = logging.getLogger(__name__)


def dispatch() -> list[int]:
    """Claim, then start. Gives the ids of the attempts that were begun."""
    if suspension.is_suspended() or not Job.objects.filter(status=Status.QUEUED).exists():
        return []
    if not Device.objects.filter(uuid=cpu_slot()).exists():
        DeviceWatch().look()
    begun = _claim_what_fits()
    for attempt in begun:
        log.info("dispatched job=%s attempt=%s devices=%s", attempt.job_id, attempt.n, attempt.devices)
        launch.start_supervisor(attempt)
    return [attempt.pk for attempt in begun]


@transaction.atomic
def _claim_what_fits() -> list[Attempt]:
    """One pass over the queue."""
    # The row of the CPU slot is the host's turnstile: one claims at a time, whoever calls.
    Device.objects.select_for_update().get(uuid=cpu_slot())
    room = _Room()
    begun = []
    for job in (
        Job.objects.select_for_update().filter(status=Status.QUEUED, trashed_at=None).order_by("-priority", "pk")
    ):
        devices, reason = room.place(job)
        if devices is None:
            _say_why_it_waits(job, reason)
        elif (attempt := _claim(job, devices)) is not None:
            begun.append(attempt)
    return begun


def _claim(job: Job, devices: Sequence[Device]) -> Attempt | None:
    if not transitions.move(
        job.pk,
        before=Status.QUEUED,
        after=Status.STARTING,
        reason=f"on {', '.join(device.name for device in devices) or host_name()}",
        started_at=Coalesce("started_at", Now()),
        wait_reason="",
    ):
        return None
    newest = Attempt.objects.filter(job=job).aggregate(n=Max("n"), fence=Max("fence"))
    attempt = Attempt.objects.create(
        job=job,
        n=(newest["n"] or 0) + 1,
        fence=(newest["fence"] or 0) + 1,
        host=host_name(),
        devices=[device.name for device in devices],
    )
    for device in devices:
        DeviceLease.objects.create(device=device, attempt=attempt, expires_at=Now() + LEASE)
    return attempt


def _say_why_it_waits(job: Job, reason: str) -> None:
    if job.wait_reason != reason[:300]:
        Job.objects.filter(pk=job.pk, status=Status.QUEUED).update(wait_reason=reason[:300])
        transitions.announce(job.pk)


class _Room:
    """What is free on this host, and what each job that found no room waits for."""

    def __init__(self) -> None:
        self._devices = _present_devices()
        self._holders = {
            lease.device_id: lease.attempt.job
            for lease in DeviceLease.objects.filter(device__host=host_name()).select_related("attempt__job")
        }
        self._n_imports = Attempt.objects.filter(host=host_name(), ended_at=None, job__verb="import").count()
        self._n_waiting = {"import": 0, "device": 0}

    def place(self, job: Job) -> tuple[list[Device] | None, str]:
        """Devices for the job (none are needed for an import), or None and the reason why it waits."""
        soonest = retry.not_before(job)
        if soonest is not None and soonest > timezone.now():
            return None, f"Its process was lost; the next attempt begins at {soonest:%H:%M:%S} UTC"
        return self._place_import() if job.verb == "import" else self._place_on_device(job)

    def _place_import(self) -> tuple[list[Device] | None, str]:
        if self._n_imports >= MOST_IMPORTS:
            return None, f"Waiting for one of {MOST_IMPORTS} running imports to end{self._place_in_queue('import')}"
        self._n_imports += 1
        return [], ""

    def _place_on_device(self, job: Job) -> tuple[list[Device] | None, str]:
        wanted = self._wanted(job)
        if not wanted:
            return None, f"None of the devices it asks for is on this host: {', '.join(job.wants)}"
        for device in wanted:
            if device.pk not in self._holders and not device.drained:
                self._holders[device.pk] = job
                return [device], ""
        return None, f"{self._why_busy(wanted)}{self._place_in_queue('device')}"

    def _wanted(self, job: Job) -> list[Device]:
        """Devices that would do. ``any`` means a GPU where the host has one: a CPU would take it for days."""
        if job.wants == ["any"] or not job.wants:
            gpus = [device for device in self._devices if device.kind == "cuda"]
            return gpus or self._devices
        if job.wants == ["cpu"]:
            return [device for device in self._devices if device.kind == "cpu"]
        return [device for device in self._devices if device.uuid in job.wants]

    def _why_busy(self, wanted: Sequence[Device]) -> str:
        if len(wanted) > 1:
            return f"Waiting for one of {len(wanted)} devices: all are in use"
        device = wanted[0]
        if device.drained:
            return f"Waiting for {device.name}: an administrator has taken it out of service"
        holder = self._holders[device.pk]
        who = "a private run" if holder.private else f"run {holder.pk} “{holder.title}”"
        return f"Waiting for {device.name}: {who} is using it"

    def _place_in_queue(self, line: str) -> str:
        self._n_waiting[line] += 1
        ahead = self._n_waiting[line] - 1
        return f"; {ahead} ahead in the queue" if ahead else "; next in the queue"


def _present_devices() -> list[Device]:
    """Devices of this host that still answer, GPUs first."""
    return present(Device.objects.filter(host=host_name()).order_by("-kind", "name", "uuid"))
