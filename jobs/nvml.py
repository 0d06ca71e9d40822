"""The GPU driver's own library, as far as Fovea asks it: what is there, how busy, how well, and who is on it.

The library is the module ``pynvml``. It is opened when it is first asked, and anew after it failed: a driver may be
loaded, updated or reset while this process lives.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, TypeVar

REOPEN_AFTER_S = 60.0
NO_GPU_HERE = frozenset({9, 12})
"""NVML_ERROR_DRIVER_NOT_LOADED, NVML_ERROR_LIBRARY_NOT_FOUND: most machines, and nothing is wrong with them."""
MISMATCH = 18
"""NVML_ERROR_LIB_RM_VERSION_MISMATCH"""
GONE = frozenset({15, 16, 28})
"""NVML_ERROR_GPU_IS_LOST, NVML_ERROR_RESET_REQUIRED, NVML_ERROR_GPU_NOT_FOUND"""
XID_EVENT = 0x8
MOST_EVENTS = 100
"""Read at one look."""

Answer = TypeVar("Answer")
log = logging.getLogger(__name__)


class Nvml(Protocol):
    """The functions of ``pynvml`` that are called. Each raises ``NVMLError``, whose ``value`` is NVML's own number."""

    NVMLError: type[Exception]
    NVML_TEMPERATURE_GPU: int

    def nvmlInit(self) -> None: ...  # noqa: N802 - names of the library
    def nvmlShutdown(self) -> None: ...  # noqa: N802
    def nvmlSystemGetDriverVersion(self) -> str | bytes: ...  # noqa: N802
    def nvmlDeviceGetCount(self) -> int: ...  # noqa: N802
    def nvmlDeviceGetHandleByIndex(self, index: int) -> Any: ...  # noqa: N802
    def nvmlDeviceGetUUID(self, handle: Any) -> str | bytes: ...  # noqa: N802
    def nvmlDeviceGetName(self, handle: Any) -> str | bytes: ...  # noqa: N802
    def nvmlDeviceGetMemoryInfo(self, handle: Any) -> Any: ...  # noqa: N802
    def nvmlDeviceGetCudaComputeCapability(self, handle: Any) -> Sequence[int]: ...  # noqa: N802
    def nvmlDeviceGetUtilizationRates(self, handle: Any) -> Any: ...  # noqa: N802
    def nvmlDeviceGetTemperature(self, handle: Any, _sensor: int) -> int: ...  # noqa: N802
    def nvmlDeviceGetPowerUsage(self, handle: Any) -> int: ...  # noqa: N802
    def nvmlDeviceGetCurrentClocksThrottleReasons(self, handle: Any) -> int: ...  # noqa: N802
    def nvmlDeviceGetComputeRunningProcesses(self, handle: Any) -> Sequence[Any]: ...  # noqa: N802
    def nvmlEventSetCreate(self) -> Any: ...  # noqa: N802
    def nvmlDeviceRegisterEvents(self, handle: Any, _types: int, _events: Any) -> None: ...  # noqa: N802
    def nvmlEventSetWait_v2(self, _events: Any, _timeout_ms: int) -> Any: ...  # noqa: N802


@dataclass(frozen=True, slots=True)
class GpuProcess:
    pid: int
    memory_bytes: int
    """0 where the driver does not say."""


class Driver:
    """The library, while it answers.

    Args:
        load: gives the module.
        clock: monotonic seconds.
    """

    def __init__(self, load: Callable[[], Nvml], *, clock: Callable[[], float] = time.monotonic) -> None:
        self._load = load
        self._clock = clock
        self._nvml: Nvml | None = None
        self._tried_at = -REOPEN_AFTER_S
        self._events: Any = None
        self._registered: set[str] = set()
        self.trouble = ""
        """Why no GPU of this host can be used, in words; empty where all is well, and where there is no GPU at all."""

    def open(self) -> Nvml | None:
        """The library; None where there is no driver, or it does not answer."""
        now = self._clock()
        if self._nvml is None and now - self._tried_at >= REOPEN_AFTER_S:
            self._tried_at = now
            self._open()
        return self._nvml

    def _open(self) -> None:
        nvml = self._load()
        try:
            nvml.nvmlInit()
            nvml.nvmlDeviceGetCount()
        except nvml.NVMLError as error:
            self._say(error)
            return
        self._nvml, self._events, self._registered, self.trouble = nvml, None, set(), ""

    def _say(self, error: Exception) -> None:
        trouble = "" if number_of(error) in NO_GPU_HERE else _words(error)
        if trouble and trouble != self.trouble:
            log.warning("no GPU is used: %s", trouble)
        self.trouble = trouble

    def failed(self, error: Exception) -> None:
        """The library as a whole does not answer any more; it is opened anew after a while."""
        self._say(error)
        if self._nvml is not None:
            try:
                self._nvml.nvmlShutdown()
            except self._nvml.NVMLError as also:
                log.debug("it does not even end: %s", also)
        self._nvml, self._tried_at = None, self._clock()

    def listen(self, nvml: Nvml, handle: Any, uuid: str) -> None:
        """Have the driver keep what happens to this GPU. Not every driver and GPU can."""
        if uuid in self._registered:
            return
        self._registered.add(uuid)
        try:
            if self._events is None:
                self._events = nvml.nvmlEventSetCreate()
            nvml.nvmlDeviceRegisterEvents(handle, XID_EVENT, self._events)
        except nvml.NVMLError as error:
            log.info("gpu=%s reports no faults by itself: %s", uuid, error)

    def xids(self) -> Iterator[tuple[str, int]]:
        """Faults since the last look: UUID of the GPU and NVIDIA's number of what happened. Does not wait."""
        nvml = self._nvml
        if nvml is None or self._events is None:
            return
        for _ in range(MOST_EVENTS):
            try:
                event = nvml.nvmlEventSetWait_v2(self._events, 0)
            except nvml.NVMLError:  # there is none, mostly
                return
            # One that fell off the bus does not even say its name: it is found by its silence.
            uuid = optional(nvml, partial(nvml.nvmlDeviceGetUUID, event.device))
            if uuid is not None and event.eventType & XID_EVENT:
                yield text(uuid), int(event.eventData)


def processes_on(nvml: Nvml, handle: Any) -> list[GpuProcess]:
    """What computes on a GPU, as far as the driver tells; in a container it may tell nothing."""
    found = optional(nvml, lambda: nvml.nvmlDeviceGetComputeRunningProcesses(handle)) or ()
    return [GpuProcess(int(one.pid), int(one.usedGpuMemory or 0)) for one in found]


def optional(nvml: Nvml, ask: Callable[[], Answer]) -> Answer | None:
    """An answer that not every GPU has."""
    try:
        return ask()
    except nvml.NVMLError:
        return None


def number_of(error: Exception) -> int:
    return int(getattr(error, "value", 0))


def text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value


def _words(error: Exception) -> str:
    if number_of(error) == MISMATCH:
        return (
            "The GPU driver in the kernel and its library are of different versions, as after an update; "
            "restart the machine, or load the driver anew"
        )
    return f"The GPU driver does not answer: {error}"
