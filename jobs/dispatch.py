"""Starts what can start on this host, oldest first. May be called by anybody, at any time, and twice at once."""

from __future__ import annotations

import logging
from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from pathlib import Path

from django.db import transaction
from django.db.models import Max, Q
from django.db.models.functions import Coalesce, Now

from jobs import launch, leases, retry, suspension, transitions
from jobs.clocks import database_now
from jobs.devices import DeviceWatch, cpu_slot, present
from jobs.host import attempts_here, host_name, is_shared_database
from jobs.models import Attempt, Device, DeviceLease, Job
from jobs.room import missing_room_bytes
from jobs.sizes import size_text
from jobs.states import Status

MOST_IMPORTS = 2
MOST_CLASSIFICATIONS = 1
LANES = {"import": MOST_IMPORTS, "classify": MOST_CLASSIFICATIONS}
"""Verbs that need no device, with how many of each run at once on this host; all others need one."""
MOST_COUNTED = 20
"""Further back in the queue a job is not told its place, which would change with every job that starts."""
MOST_ANNOUNCED = 50
"""Jobs at once that open pages are told of, which fetch each of them anew."""

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
        elif reason is not None and job.wait_reason != reason[:300]:
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
        **leases.first_hold(),
    )
    for device in devices:
        DeviceLease.objects.filter(device=device, attempt__ended_at__isnull=False).delete()
        DeviceLease.objects.create(device=device, attempt=attempt, expires_at=Now() + leases.lease())
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
        transitions.announce(job.pk, fleeting=True)


class _Room:
    """What is free on this host, and what each job that found no room waits for.

    Of several hosts, one says it: the first by name of those that could take the job. Else they would correct each
    other every two seconds.
    """

    def __init__(self) -> None:
        self._devices, self._elsewhere = _present_devices()
        self._hosts = {host_name(), *(device.host for device in self._elsewhere)}
        self._holders = _holders()
        running = Attempt.objects.filter(attempts_here(), ended_at=None, job__verb__in=LANES)
        self._n_running = Counter(running.values_list("job__verb", flat=True))
        self._n_waiting: Counter[str] = Counter()

    def has(self, job: Job, devices: Sequence[Device]) -> bool:
        """Whether this place is free; then it is the job's."""
        if job.verb in LANES:
            return self._place_in_lane(job.verb)[0] is not None
        usable = {device.pk for device in self._devices if device.is_usable} - self._holders.keys()
        if not usable.issuperset(device.pk for device in devices):
            return False
        self._holders.update((device.pk, job) for device in devices)
        return True

    @cached_property
    def _missing_bytes(self) -> int:
        """Of the reserve of the disk: what would run into its end is not begun."""
        return missing_room_bytes()

    @cached_property
    def _lately_lost(self) -> set[int]:
        """Jobs whose next attempt may have to wait, because the last one ended so short a time ago."""
        since = self._now - timedelta(seconds=max(retry.DELAYS_S))
        ended = Attempt.objects.filter(job__status=Status.QUEUED, ended_at__gt=since)
        return set(ended.values_list("job_id", flat=True))

    @cached_property
    def _now(self) -> datetime:
        """By the clock that dates the ends of attempts; this host's own may be hours wrong."""
        return database_now()

    def place(self, job: Job) -> tuple[list[Device] | None, str | None]:
        """Devices for the job (not every verb needs one), or None and why it waits; None where another host says it."""
        if self._missing_bytes:
            return None, self._said(f"Waiting for room on the disk: {size_text(self._missing_bytes)} are missing")
        soonest = retry.not_before(job) if job.pk in self._lately_lost else None
        # Further away than it can be: the clock was set back since.
        if soonest is not None and self._now < soonest <= self._now + timedelta(seconds=max(retry.DELAYS_S)):
            return None, self._said(f"Its process was lost; the next attempt begins at {soonest:%H:%M:%S} UTC")
        if job.verb not in LANES:
            return self._place_on_device(job)
        if (folder := self._folder_elsewhere(job)) is not None:
            return None, self._said(f"Waiting for a host on which {folder} can be read")
        devices, reason = self._place_in_lane(job.verb)
        return devices, self._said(reason)

    def _said(self, reason: str, hosts: Collection[str] | None = None) -> str | None:
        """The reason, if of the hosts that could take the job (else of all) this is the one that says it."""
        return reason if host_name() == min(hosts or self._hosts) else None

    def _folder_elsewhere(self, job: Job) -> str | None:
        """The folder of a server that the job reads, if there are several hosts and this one does not have it."""
        if not self._elsewhere:
            return None
        source = job.spec.get("source") or {}
        folder = str(source.get("path" if source.get("kind") == "folder" else "folder") or "")
        return folder if Path(folder).is_absolute() and not Path(folder).exists() else None

    def _place_in_lane(self, verb: str) -> tuple[list[Device] | None, str]:
        if self._n_running[verb] >= LANES[verb]:
            return None, f"{_WAITS_FOR_LANE[verb]}{self._place_in_queue(verb)}"
        self._n_running[verb] += 1
        return [], ""

    def _place_on_device(self, job: Job) -> tuple[list[Device] | None, str | None]:
        wanted = self._wanted(job)
        if not wanted:
            where = "this host" if len(self._hosts) == 1 else "a host that answers"
            return None, self._said(f"None of the devices it asks for is on {where}: {', '.join(job.wants)}")
        mine = [device for device in wanted if device.host == host_name()]
        for device in mine:
            if device.pk not in self._holders and device.is_usable:
                self._holders[device.pk] = job
                return [device], ""
        place_in_queue = self._place_in_queue("device")
        if not mine:
            return None, None
        return None, self._said(f"{self._why_busy(wanted)}{place_in_queue}", {device.host for device in wanted})

    def _wanted(self, job: Job) -> list[Device]:
        """Devices that would do, of all hosts. ``any`` means a GPU where there is one: a CPU would take it for days."""
        devices = [*self._devices, *self._elsewhere]
        if job.wants == ["any"] or not job.wants:
            gpus = [device for device in devices if device.kind == "cuda"]
            return gpus or devices
        if job.wants == ["cpu"]:
            return [device for device in devices if device.kind == "cpu"]
        return [device for device in devices if device.uuid in job.wants]

    def _why_busy(self, wanted: Sequence[Device]) -> str:
        if len(wanted) > 1:
            busy = "all are in use" if any(device.is_usable for device in wanted) else "none can be used now"
            return f"Waiting for one of {len(wanted)} devices: {busy}"
        device = wanted[0]
        if device.drained:
            reason = device.drained_reason or "an administrator has taken it out of service"
            return f"Waiting for {device.name}, which is out of service: {reason}"
        if device.pk not in self._holders:
            return f"Waiting for {device.name}: {_strangers_of(device)}"
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


def _strangers_of(device: Device) -> str:
    first, *others = device.strangers
    more = f", and {len(others)} more," if others else ""
    used = f" with {size_text(first['memory_bytes'])}" if first["memory_bytes"] else ""
    return f"process {first['pid']} ({first['name']}){used}{more} is on it, which no job here has started"


def _present_devices() -> tuple[list[Device], list[Device]]:
    """Devices that still answer, GPUs first: of this host, and of the others that share its database."""
    devices = Device.objects.order_by("-kind", "name", "uuid")
    mine = present(devices.filter(host=host_name()))
    if not is_shared_database():
        return mine, []
    known = {device.pk for device in mine}
    # Against ours, which were seen just now: of a host that is gone all devices are equally old.
    return mine, [device for device in present(devices) if device.host != host_name() and device.pk not in known]


def _holders() -> dict[int, Job]:
    """Who uses which device of this host, by the device's key. A lease of an ended attempt is none."""
    ours = Q(device__host=host_name()) | Q(attempt__in=Attempt.objects.filter(attempts_here()))
    leases = DeviceLease.objects.filter(ours, attempt__ended_at__isnull=True).select_related("attempt__job", "device")
    slot = Device.objects.get(uuid=cpu_slot())
    # Under a name that the host had before, its CPU has another row.
    return {slot.pk if lease.device.kind == "cpu" else lease.device_id: lease.attempt.job for lease in leases}
