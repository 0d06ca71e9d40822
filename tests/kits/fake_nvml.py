"""The GPU driver of a machine that has none: the functions of ``pynvml`` that are called, over a file.

The file is what several processes share, as they share a driver. ``FakeGpus`` writes it, in a test; ``pynvml_here`` is
a folder that, first on PYTHONPATH, makes ``import pynvml`` give this module in any process.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

VARIABLE = "FOVEA_FAKE_NVML"
"""Names the file."""
MIB = 2**20
NVML_TEMPERATURE_GPU = 0
NVML_ERROR_NOT_SUPPORTED, NVML_ERROR_TIMEOUT, NVML_ERROR_DRIVER_NOT_LOADED, NVML_ERROR_GPU_IS_LOST = 3, 10, 9, 15
NVML_ERROR_LIB_RM_VERSION_MISMATCH = 18
XID = 0x8


class NVMLError(Exception):
    def __init__(self, value: int) -> None:
        super().__init__({15: "GPU is lost", 18: "RM has detected an NVML/RM version mismatch."}.get(value, f"{value}"))
        self.value = value


class FakeGpus:
    """Two GPUs, and what a test does to them."""

    def __init__(self, path: Path, *, n: int = 2) -> None:
        self.path = path
        self.uuids = [f"GPU-0000000{index}-fake" for index in range(n)]
        gpus = [{"uuid": uuid, "lost": False, "throttle": 0, "processes": [], "used": 400 * MIB} for uuid in self.uuids]
        self._write({"init": 0, "gpus": gpus, "events": []})

    def fall_off_bus(self, index: int) -> None:
        """As the kernel sees it: Xid 79, and from then on no answer."""
        self.report(index, 79)
        self._change(index, lost=True)

    def come_back(self, index: int) -> None:
        self._change(index, lost=False)

    def report(self, index: int, xid: int) -> None:
        state = _state(self.path)
        state["events"].append([index, xid])
        self._write(state)

    def throttle(self, index: int, reasons: int) -> None:
        self._change(index, throttle=reasons)

    def occupy(self, index: int, *processes: tuple[int, int]) -> None:
        """Let the driver show these processes: pid and bytes."""
        self._change(index, processes=list(processes))

    def refuse(self, error: int) -> None:
        """No function works any more."""
        self._write(_state(self.path) | {"init": error})

    def _change(self, index: int, **values: Any) -> None:
        state = _state(self.path)
        state["gpus"][index] |= values
        self._write(state)

    def _write(self, state: dict[str, Any]) -> None:
        beside = self.path.with_suffix(".new")
        beside.write_text(json.dumps(state))
        beside.replace(self.path)


def _state(path: Path | None = None) -> dict[str, Any]:
    named = path or Path(os.environ[VARIABLE])
    state: dict[str, Any] = json.loads(named.read_text())
    return state


def _asked() -> dict[str, Any]:
    state = _state()
    if state["init"]:
        raise NVMLError(state["init"])
    return state


def _gpu(handle: int) -> dict[str, Any]:
    gpu: dict[str, Any] = _asked()["gpus"][handle]
    if gpu["lost"]:
        raise NVMLError(NVML_ERROR_GPU_IS_LOST)
    return gpu


def nvmlInit() -> None:
    _asked()


def nvmlShutdown() -> None:
    pass


def nvmlSystemGetDriverVersion() -> str:
    return "999.1"


def nvmlDeviceGetCount() -> int:
    return len(_asked()["gpus"])


def nvmlDeviceGetHandleByIndex(index: int) -> int:
    _gpu(index)
    return index


def nvmlDeviceGetUUID(handle: int) -> str:
    return str(_gpu(handle)["uuid"])


def nvmlDeviceGetName(handle: int) -> bytes:
    _gpu(handle)
    return b"Fake 3000"


def nvmlDeviceGetMemoryInfo(handle: int) -> SimpleNamespace:
    return SimpleNamespace(total=24_576 * MIB, used=_gpu(handle)["used"])


def nvmlDeviceGetCudaComputeCapability(handle: int) -> tuple[int, int]:
    """The first is of a generation without bfloat16."""
    _gpu(handle)
    return (9, 0) if handle else (7, 5)


def nvmlDeviceGetUtilizationRates(handle: int) -> SimpleNamespace:
    _gpu(handle)
    return SimpleNamespace(gpu=37)


def nvmlDeviceGetTemperature(handle: int, sensor: int) -> int:
    _gpu(handle)
    return 61


def nvmlDeviceGetPowerUsage(handle: int) -> int:
    """Not every GPU knows it."""
    raise NVMLError(NVML_ERROR_NOT_SUPPORTED)


def nvmlDeviceGetCurrentClocksThrottleReasons(handle: int) -> int:
    return int(_gpu(handle)["throttle"])


def nvmlDeviceGetComputeRunningProcesses(handle: int) -> list[SimpleNamespace]:
    return [SimpleNamespace(pid=pid, usedGpuMemory=used or None) for pid, used in _gpu(handle)["processes"]]


def nvmlEventSetCreate() -> dict[str, Any]:
    """A set holds what is reported after its making."""
    return {"at": len(_asked()["events"]), "handles": set()}


def nvmlDeviceRegisterEvents(handle: int, types: int, event_set: dict[str, Any]) -> None:
    _gpu(handle)
    event_set["handles"].add(handle)


def nvmlEventSetWait_v2(event_set: dict[str, Any], timeout_ms: int) -> SimpleNamespace:
    events = _state()["events"]
    while event_set["at"] < len(events):
        handle, xid = events[event_set["at"]]
        event_set["at"] += 1
        if handle in event_set["handles"]:
            return SimpleNamespace(device=handle, eventType=XID, eventData=xid)
    raise NVMLError(NVML_ERROR_TIMEOUT)
