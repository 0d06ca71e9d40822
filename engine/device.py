"""The device that a job computes on, and how many cores it has beside it."""

from __future__ import annotations

import os
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch

from engine.faults import as_fovea_error
from wire.errors import DeviceMissing, DriverMismatch

_BF16_CAPABILITY = (8, 0)
_CPUINFO = Path("/proc/cpuinfo")
_CPU_QUOTA = Path("/sys/fs/cgroup/cpu.max")
_BF16_CPU_FLAGS = frozenset({"avx512_bf16", "amx_bf16"})


@dataclass(frozen=True, slots=True)
class Device:
    torch: torch.device
    label: str
    uuids: tuple[str, ...]
    """Of GPUs, as the driver names them; empty for the CPU."""
    has_bf16: bool
    """Units for it, not an emulation, which is several times slower than fp32."""


def choose_device(wanted: Literal["auto", "cpu", "cuda"]) -> Device:
    """The first visible GPU, or the CPU.

    Raises:
        DeviceMissing: a GPU is asked for and none is visible.
        DriverMismatch: there is one, and its driver does not go with this PyTorch.
    """
    if wanted == "cpu" or (wanted == "auto" and not torch.cuda.is_available()):
        return Device(torch.device("cpu"), "CPU", (), has_bf16=_cpu_has_bf16())
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        is_there = torch.cuda.is_available()
    if not is_there:
        for warning in told:  # torch only says so, and goes on without the GPU
            if isinstance(error := as_fovea_error(RuntimeError(str(warning.message))), DriverMismatch):
                raise error
        raise DeviceMissing(
            "The job asks for a GPU and this process sees none.",
            hint="Choose the CPU, or check the driver and CUDA_VISIBLE_DEVICES.",
        )
    properties = torch.cuda.get_device_properties(0)
    return Device(
        torch.device("cuda", 0),
        properties.name,
        (f"GPU-{properties.uuid}",),
        has_bf16=(properties.major, properties.minor) >= _BF16_CAPABILITY,
    )


def n_physical_cores() -> int:
    """Cores that this process may use: two hardware threads of one core count once, a container's quota is heeded."""
    allowed = os.sched_getaffinity(0)
    n_cores = len({_core_of(cpu) for cpu in allowed})
    return max(1, min(n_cores, _quota_cores() or n_cores))


def _core_of(cpu: int) -> tuple[str, ...]:
    topology = Path(f"/sys/devices/system/cpu/cpu{cpu}/topology")
    try:
        return tuple((topology / name).read_text() for name in ("physical_package_id", "core_id"))
    except OSError:  # a container may hide it
        return (str(cpu),)


def _quota_cores() -> int | None:
    try:
        quota, period = _CPU_QUOTA.read_text().split()
    except (OSError, ValueError):
        return None
    return None if quota == "max" else -(-int(quota) // int(period))


def machine_facts(device: Device) -> dict[str, str]:
    """What decides how numbers are rounded: a run that goes on elsewhere goes on a little differently."""
    facts = {"device": device.label, "torch": f"PyTorch {torch.__version__}"}
    if device.torch.type == "cpu":
        model = _of_cpu("model name").partition(":")[2].strip()
        facts["processor"] = f"{model or 'a processor'} ({torch.backends.cpu.get_cpu_capability()})"
    return facts


def _cpu_has_bf16() -> bool:
    return not _BF16_CPU_FLAGS.isdisjoint(_of_cpu("flags").split())


def _of_cpu(name: str) -> str:
    """The first line of this name that the kernel tells about its processors; empty where it tells none."""
    try:
        lines = _CPUINFO.read_text().splitlines()
    except OSError:
        return ""
    return next((line for line in lines if line.startswith(name)), "")
