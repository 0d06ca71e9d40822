"""Starts what can start on this host, oldest first. May be called by anybody, at any time, and twice at once."""

from __future__ import annotations

import logging
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property

from django.db import transaction
from django.db.models import Max, Q
from django.db.models.functions import Coalesce, Now
from django.utils import timezone

from jobs import launch, retry, suspension, transitions
from jobs.devices import DeviceWatch, cpu_slot, present
from jobs.host import attempts_here, host_name
from jobs.models import Attempt, Device, DeviceLease, Job
from jobs.states import Status

MOST_IMPORTS = 2
MOST_CLASSIFICATIONS = 1
LANES = {"import": MOST_IMPORTS, "classify": MOST_CLASSIFICATIONS}
"""Verbs that need no device, with how many of each run at once on this host; all others need one."""
MOST_COUNTED = 20
"""Further back in the queue a job is not told its place, which would change with every job that starts."""
MOST_ANNOUNCED = 50
"""Jobs at once that open pages are told of, which fetch each of them anew."""
LEASE = timedelta(minutes=1)
"""Renewed by the supervisor; counted in the time of the database."""

_WAITS_FOR_LANE = {
    "import": f"Waiting for one of {MOST_IMPORTS} running imports to end",
    "classify": "Waiting for another classification to end",
}
_HOLDS_DEVICE = {"evaluate": "evaluation", "export": "export"}
"""What a job that uses a device is called, where it is no run."""

log = logging.getLogger(__name__)


def dispatch() -> list[int]:
    """Claim, then start. Gives the ids of the attempts that were begun."""
    if suspension.is_suspended() or not Job.objects.filter(status=Status.QUEUED).exists():
        return []
    if not Device.objects.filter(uuid=cpu_slot()).exists():
        DeviceWatch().look()
    plan = _look_over_the_queue()
    begun = _claim_what_fits(plan.placed) if plan.placed else []
    for attempt in begun:
        log.info("dispatched job=%s attempt=%s devices=%s", attempt.job_id, attempt.n, attempt.devices)
        launch.start_supervisor(attempt)
    if plan.told:
        _say_why_they_wait(plan.told)
    return [attempt.pk for attempt in begun]


@dataclass(frozen=True, slots=True)
class _Plan:
    placed: list[tuple[Job, list[Device]]]
    told: list[Job]
    """Those that wait for another reason than their rows say, with the new one."""


def _look_over_the_queue() -> _Plan:
    """What could start now. Only reads, so that a long queue keeps nobody from writing."""
    room = _Room()
    plan = _Plan([], [])
    queue = Job.objects.filter(status=Status.QUEUED, trashed_at=None).order_by("-priority", "pk")
    for job in queue.only("verb", "wants", "wait_reason", "title", "private"):
        devices, reason = room.place(job)
        if devices is not None:
            plan.placed.append((job, devices))
        elif job.wait_reason != reason[:300]:
            job.wait_reason = reason[:300]
            plan.told.append(job)
    return plan


@transaction.atomic
def _claim_what_fits(placed: Sequence[tuple[Job, list[Device]]]) -> list[Attempt]:
    """What is still free of the places that were found; what is not is looked over again the next time."""
    _pass_turnstile()
    room = _Room()
    claims = (_claim(job, devices) for job, devices in placed if room.has(job, devices))
    return [attempt for attempt in claims if attempt is not None]


def _pass_turnstile() -> None:
    """One writes to the queue at a time, whoever calls: the row of the host's CPU slot is what they wait for."""
    Device.objects.select_for_update().get(uuid=cpu_slot())


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
        DeviceLease.objects.filter(device=device, attempt__ended_at__isnull=False).delete()
        DeviceLease.objects.create(device=device, attempt=attempt, expires_at=Now() + LEASE)
    return attempt


@transaction.atomic
def _say_why_they_wait(jobs: Sequence[Job]) -> None:
    _pass_turnstile()
    by_reason = defaultdict(list)
    for job in jobs:
        by_reason[job.wait_reason].append(job.pk)
    # Most of a long queue waits for the same: a few statements, where ``bulk_update`` holds the database for long.
    for reason, ids in by_reason.items():
        Job.objects.filter(pk__in=ids, status=Status.QUEUED).update(wait_reason=reason)
    for job in jobs[:MOST_ANNOUNCED]:
        transitions.announce(job.pk)


class _Room:
    """What is free on this host, and what each job that found no room waits for."""

    def __init__(self) -> None:
        self._devices = _present_devices()
        self._holders = _holders()
        running = Attempt.objects.filter(attempts_here(), ended_at=None, job__verb__in=LANES)
        self._n_running = Counter(running.values_list("job__verb", flat=True))
        self._n_waiting: Counter[str] = Counter()

    def has(self, job: Job, devices: Sequence[Device]) -> bool:
        """Whether this place is free; then it is the job's."""
        if job.verb in LANES:
            return self._place_in_lane(job.verb)[0] is not None
        usable = {device.pk for device in self._devices if not device.drained} - self._holders.keys()
        if not usable.issuperset(device.pk for device in devices):
            return False
        self._holders.update((device.pk, job) for device in devices)
        return True

    @cached_property
    def _lately_lost(self) -> set[int]:
        """Jobs whose next attempt may have to wait, because the last one ended so short a time ago."""
        since = timezone.now() - timedelta(seconds=max(retry.DELAYS_S))
        ended = Attempt.objects.filter(job__status=Status.QUEUED, ended_at__gt=since)
        return set(ended.values_list("job_id", flat=True))

    def place(self, job: Job) -> tuple[list[Device] | None, str]:
        """Devices for the job (not every verb needs one), or None and the reason why it waits."""
        soonest = retry.not_before(job) if job.pk in self._lately_lost else None
        if soonest is not None and soonest > timezone.now():
            return None, f"Its process was lost; the next attempt begins at {soonest:%H:%M:%S} UTC"
        return self._place_in_lane(job.verb) if job.verb in LANES else self._place_on_device(job)

    def _place_in_lane(self, verb: str) -> tuple[list[Device] | None, str]:
        if self._n_running[verb] >= LANES[verb]:
            return None, f"{_WAITS_FOR_LANE[verb]}{self._place_in_queue(verb)}"
        self._n_running[verb] += 1
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
        noun = _HOLDS_DEVICE.get(holder.verb, "run")
        who = f"a private {noun}" if holder.private else f"{noun} {holder.pk} “{holder.title}”"
        return f"Waiting for {device.name}: {who} is using it"

    def _place_in_queue(self, line: str) -> str:
        self._n_waiting[line] += 1
        ahead = self._n_waiting[line] - 1
        if ahead > MOST_COUNTED:
            return f"; more than {MOST_COUNTED} ahead in the queue"
        return f"; {ahead} ahead in the queue" if ahead else "; next in the queue"


def _present_devices() -> list[Device]:
    """Devices of this host that still answer, GPUs first."""
    return present(Device.objects.filter(host=host_name()).order_by("-kind", "name", "uuid"))


def _holders() -> dict[int, Job]:
    """Who uses which device of this host, by the device's key. A lease of an ended attempt is none."""
    ours = Q(device__host=host_name()) | Q(attempt__in=Attempt.objects.filter(attempts_here()))
    leases = DeviceLease.objects.filter(ours, attempt__ended_at__isnull=True).select_related("attempt__job", "device")
    slot = Device.objects.get(uuid=cpu_slot())
    # Under a name that the host had before, its CPU has another row.
    return {slot.pk if lease.device.kind == "cpu" else lease.device_id: lease.attempt.job for lease in leases}
