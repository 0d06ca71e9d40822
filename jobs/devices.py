"""What this host can compute on, and how busy that is: GPUs by their UUID, the CPU as one slot."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from typing import cast

import psutil
from pydantic import BaseModel

from jobs.clocks import database_now
from jobs.gpus import GpuWatch, Reading
from jobs.host import attempts_here, host_name
from jobs.models import Attempt, Device, DeviceLease, DeviceSample
from jobs.nvml import Driver, Nvml

SAMPLE_EVERY_S = 30.0
STALE_AFTER = timedelta(minutes=1)
"""A device that was not seen for so long while others were is gone."""
BF16_CPU_FLAGS = {"avx512_bf16", "amx_bf16", "bf16"}
MOST_STRANGERS = 8

log = logging.getLogger(__name__)


def load_nvml() -> Nvml:
    import pynvml

    return cast("Nvml", pynvml)


def cpu_slot() -> str:
    return f"cpu:{host_name()}:0"


def read_cpu() -> Reading:
    memory = psutil.virtual_memory()
    facts = _cpu_facts()
    return Reading(
        uuid=cpu_slot(),
        kind="cpu",
        name=f"CPU ({facts.model})",
        memory_bytes=memory.total,
        memory_used_bytes=memory.total - memory.available,
        utilisation_pct=psutil.cpu_percent(interval=None),
        bf16=facts.bf16,
    )


@dataclass(frozen=True, slots=True)
class _CpuFacts:
    model: str
    bf16: bool


@cache
def _cpu_facts() -> _CpuFacts:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    facts = {key.strip().lower(): value.strip() for key, _, value in (line.partition(":") for line in lines) if value}
    flags = set((facts.get("flags") or facts.get("features") or "").split())
    n_cores = psutil.cpu_count(logical=False) or psutil.cpu_count() or 1
    return _CpuFacts(model=facts.get("model name") or f"{n_cores} cores", bf16=bool(flags & BF16_CPU_FLAGS))


def present(devices: Iterable[Device], *, also_lost: bool = False) -> list[Device]:
    """Those that still answer. Measured against the newest, so that an agent that pauses takes none away.

    Args:
        devices: which ones.
        also_lost: keep those of which it is known that they do not answer, so that somebody can see it.
    """
    rows = list(devices)
    newest = max((device.seen_at for device in rows), default=None)
    return [
        device
        for device in rows
        if newest is not None and (newest - device.seen_at <= STALE_AFTER or (also_lost and device.lost))
    ]


class DeviceWatch:
    """Keeps the device rows of this host true, and a thinned history."""

    def __init__(self) -> None:
        self._gpus = GpuWatch(Driver(load_nvml))
        self._sampled_at: dict[str, float] = {}

    def look(self) -> list[Device]:
        now = database_now()
        gpus = self._gpus.look()
        trouble = f"No GPU can be used: {self._gpus.trouble}" if self._gpus.trouble else ""
        is_in_use = any(reading.processes for reading in gpus)
        known = _engine_pids() if is_in_use else frozenset[int]()
        leased = _leased_uuids() if is_in_use else frozenset[str]()
        devices = [_keep(read_cpu(), now, warning=trouble)]
        devices += [
            _keep(reading, now, strangers=_strangers(reading, known, is_leased=reading.uuid in leased))
            for reading in gpus
        ]
        for fault in self._gpus.faults:
            take_out_of_service(fault.uuid, fault.reason, is_lost=fault.is_lost)
        due = [device for device in devices if self._is_due(device.uuid)]
        DeviceSample.objects.bulk_create(
            DeviceSample(
                device=device,
                at=now,
                memory_used_bytes=device.memory_used_bytes,
                utilisation_pct=device.utilisation_pct,
                temperature_c=device.temperature_c,
                power_w=device.power_w,
            )
            for device in due
        )
        return devices

    def _is_due(self, uuid: str) -> bool:
        now = time.monotonic()
        if now - self._sampled_at.get(uuid, -SAMPLE_EVERY_S) < SAMPLE_EVERY_S:
            return False
        self._sampled_at[uuid] = now
        return True


def take_out_of_service(uuid: str, reason: str, *, is_lost: bool) -> bool:
    """Place nothing new on a device; where it is lost, what runs there leaves it. False where it was so already."""
    rows = Device.objects.filter(uuid=uuid)
    rows = rows.filter(lost=False) if is_lost else rows.filter(drained=False)
    columns = {"drained": True, "drained_reason": reason[:300]} | ({"lost": True} if is_lost else {})
    if not rows.update(**columns):
        return False
    log.error("device=%s is taken out of service: %s", uuid, reason)
    return True


def drain_if_lost(uuids: Collection[str], *, job_id: int) -> None:
    """Take those GPUs out of service that do not answer the driver, as a job that used them has said of one."""
    gpus = GpuWatch(Driver(load_nvml))
    answering = {reading.uuid for reading in gpus.look()}
    if gpus.trouble:
        return
    for uuid in set(uuids) - answering:
        take_out_of_service(uuid, f"it does not answer its driver any more, as job {job_id} met it", is_lost=True)


def _keep(reading: Reading, now: datetime, *, warning: str = "", strangers: Sequence[Stranger] = ()) -> Device:
    columns = {
        "host": host_name(),
        "kind": reading.kind,
        "name": reading.name[:120],
        "memory_bytes": reading.memory_bytes,
        "memory_used_bytes": reading.memory_used_bytes,
        "utilisation_pct": reading.utilisation_pct,
        "temperature_c": reading.temperature_c,
        "power_w": reading.power_w,
        "driver": reading.driver,
        "bf16": reading.bf16,
        "warning": (warning or reading.warning)[:300],
        "strangers": [stranger.model_dump() for stranger in strangers],
        "seen_at": now,
    }
    device, _ = Device.objects.update_or_create(uuid=reading.uuid, defaults=columns)
    return device


class Stranger(BaseModel):
    """A process on a GPU that no job of this server started. It is shown and avoided, never ended."""

    pid: int
    name: str
    memory_bytes: int


def _strangers(reading: Reading, known: Collection[int], *, is_leased: bool) -> list[Stranger]:
    """Those that computes on the GPU beside our own engines, the largest first."""
    found = []
    for process in sorted(reading.processes, key=lambda process: -process.memory_bytes)[:MOST_STRANGERS]:
        group = _group_of(process.pid)
        # In a container the driver may count processes by the host's numbers: ours among them while one runs here.
        if group in known or (group is None and is_leased):
            continue
        found.append(Stranger(pid=process.pid, name=_name_of(process.pid), memory_bytes=process.memory_bytes))
    return found


def _engine_pids() -> frozenset[int]:
    """Each leads the group of its own processes."""
    running = Attempt.objects.filter(attempts_here(), ended_at=None, pid__isnull=False)
    return frozenset(pid for pid in running.values_list("pid", flat=True) if pid is not None)


def _leased_uuids() -> frozenset[str]:
    leases = DeviceLease.objects.filter(attempt__ended_at=None, device__host=host_name())
    return frozenset(leases.values_list("device__uuid", flat=True))


def _group_of(pid: int) -> int | None:
    try:
        return os.getpgid(pid)
    except ProcessLookupError:
        return None


def _name_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return "of another container"
