"""What this host can compute on, and how busy that is: GPUs by their UUID, the CPU as one slot."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import psutil
from django.utils import timezone

from jobs.host import host_name
from jobs.models import Device, DeviceSample

SAMPLE_EVERY_S = 30.0
STALE_AFTER = timedelta(minutes=1)
"""A device that was not seen for so long while others were is gone."""
BF16_CPU_FLAGS = {"avx512_bf16", "amx_bf16", "bf16"}
BF16_SINCE_CAPABILITY = 8

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Reading:
    uuid: str
    kind: str
    name: str
    memory_bytes: int
    memory_used_bytes: int
    utilisation_pct: float | None
    bf16: bool
    driver: str = ""
    temperature_c: float | None = None
    power_w: float | None = None


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


@cache
def _nvml() -> Any:
    """The module, initialised; None where there is no driver."""
    import pynvml

    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return None
    return pynvml


def read_gpus() -> list[Reading]:
    """Every GPU that the driver shows. One that does not answer is left out, and so grows stale."""
    nvml = _nvml()
    if nvml is None:
        return []
    readings = []
    for index in range(_n_gpus(nvml)):
        try:
            readings.append(_read_gpu(nvml, index))
        except nvml.NVMLError as error:
            log.warning("gpu=%s does not answer: %s", index, error)
    return readings


def _n_gpus(nvml: Any) -> int:
    try:
        return int(nvml.nvmlDeviceGetCount())
    except nvml.NVMLError as error:
        _warn_once(f"the GPU driver does not answer, so no GPU is used: {error}")
        return 0


@cache
def _warn_once(text: str) -> None:
    log.warning(text)


def _read_gpu(nvml: Any, index: int) -> Reading:
    handle = nvml.nvmlDeviceGetHandleByIndex(index)
    memory = nvml.nvmlDeviceGetMemoryInfo(handle)
    capability, _ = nvml.nvmlDeviceGetCudaComputeCapability(handle)
    return Reading(
        uuid=_text(nvml.nvmlDeviceGetUUID(handle)),
        kind="cuda",
        name=f"GPU {index} ({_text(nvml.nvmlDeviceGetName(handle))})",
        memory_bytes=memory.total,
        memory_used_bytes=memory.used,
        utilisation_pct=_optional(nvml, lambda: float(nvml.nvmlDeviceGetUtilizationRates(handle).gpu)),
        bf16=capability >= BF16_SINCE_CAPABILITY,
        driver=_text(nvml.nvmlSystemGetDriverVersion()),
        temperature_c=_optional(nvml, lambda: float(nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU))),
        power_w=_optional(nvml, lambda: nvml.nvmlDeviceGetPowerUsage(handle) / 1000),
    )


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value


def _optional(nvml: Any, read: Any) -> float | None:
    """A gauge that not every GPU has."""
    try:
        return float(read())
    except nvml.NVMLError:
        return None


def present(devices: Iterable[Device]) -> list[Device]:
    """Those that still answer. Measured against the newest, so that an agent that pauses takes none away."""
    rows = list(devices)
    newest = max((device.seen_at for device in rows), default=None)
    return [device for device in rows if newest is not None and newest - device.seen_at <= STALE_AFTER]


class DeviceWatch:
    """Keeps the device rows of this host true, and a thinned history."""

    def __init__(self) -> None:
        self._sampled_at: dict[str, float] = {}

    def look(self) -> list[Device]:
        now = timezone.now()
        devices = [_keep(reading, now) for reading in (read_cpu(), *read_gpus())]
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


def _keep(reading: Reading, now: datetime) -> Device:
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
        "seen_at": now,
    }
    device, _ = Device.objects.update_or_create(uuid=reading.uuid, defaults=columns)
    return device
