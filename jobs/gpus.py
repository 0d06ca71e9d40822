"""The GPUs of this host: what each can do, how busy it is, what is wrong with it. No database here."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from jobs.nvml import GONE, Driver, GpuProcess, Nvml, number_of, optional, processes_on, text

BF16_SINCE_CAPABILITY = 8
XID_LOST: Final = {
    48: "a double-bit memory error (Xid 48)",
    79: "it has fallen off the bus (Xid 79)",
    95: "an uncontained memory error (Xid 95)",
}
"""What computes on the GPU has to leave it. Source: NVIDIA, Xid Errors, the catalogue and its recommended actions."""
XID_DRAINED: Final = {
    64: "a memory row could not be replaced (Xid 64)",
    74: "its NVLink failed (Xid 74)",
}
"""Nothing new is placed on it."""
XID_TOLD: Final = {
    63: "a memory row is replaced at its next reset (Xid 63)",
    94: "a contained memory error ended what ran on it (Xid 94)",
}
"""Others are the fault of the program that ran."""
THROTTLES: Final = {
    0x08: "its clocks are halved by the hardware",
    0x20: "it is slowed down because it is hot",
    0x40: "it is slowed down by the hardware because it is hot",
    0x80: "it is slowed down by its power supply",
}
"""Bits of nvmlDeviceGetCurrentClocksThrottleReasons; the others are how a GPU that is well saves power."""

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
    warning: str = ""
    processes: tuple[GpuProcess, ...] = ()


@dataclass(frozen=True, slots=True)
class Fault:
    """Why a GPU is taken out of service."""

    uuid: str
    reason: str
    is_lost: bool


class GpuWatch:
    """Looks at every GPU that the driver shows. One that does not answer gives no reading, and so grows stale."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._uuids: dict[int, str] = {}
        self._told: dict[str, str] = {}
        self._silent: set[int] = set()
        self.faults: list[Fault] = []
        """What the last look found."""

    @property
    def trouble(self) -> str:
        """Why no GPU of this host can be used; empty where all is well, and where there is none."""
        return self._driver.trouble

    def look(self) -> list[Reading]:
        self.faults = []
        nvml = self._driver.open()
        if nvml is None:
            return []
        try:
            n_gpus = int(nvml.nvmlDeviceGetCount())
        except nvml.NVMLError as error:
            self._driver.failed(error)
            return []
        readings = [reading for index in range(n_gpus) if (reading := self._read(nvml, index)) is not None]
        self.faults += self._reported()
        return readings

    def _read(self, nvml: Nvml, index: int) -> Reading | None:
        try:
            handle = nvml.nvmlDeviceGetHandleByIndex(index)
            uuid = self._uuids[index] = text(nvml.nvmlDeviceGetUUID(handle))
            self._driver.listen(nvml, handle, uuid)
            reading = self._reading(nvml, handle, index, uuid)
        except nvml.NVMLError as error:
            if index not in self._silent:
                log.warning("gpu=%s does not answer: %s", index, error)
            self._silent.add(index)
            if number_of(error) in GONE and index in self._uuids:
                reason = f"it does not answer its driver any more ({error})"
                self.faults.append(Fault(self._uuids[index], reason, is_lost=True))
            return None
        self._silent.discard(index)
        return reading

    def _reading(self, nvml: Nvml, handle: Any, index: int, uuid: str) -> Reading:
        memory = nvml.nvmlDeviceGetMemoryInfo(handle)
        capability, _ = nvml.nvmlDeviceGetCudaComputeCapability(handle)
        power_mw = optional(nvml, lambda: nvml.nvmlDeviceGetPowerUsage(handle))
        rates = optional(nvml, lambda: nvml.nvmlDeviceGetUtilizationRates(handle))
        temperature = optional(nvml, lambda: nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU))
        return Reading(
            uuid=uuid,
            kind="cuda",
            name=f"GPU {index} ({text(nvml.nvmlDeviceGetName(handle))})",
            memory_bytes=memory.total,
            memory_used_bytes=memory.used,
            utilisation_pct=None if rates is None else float(rates.gpu),
            bf16=capability >= BF16_SINCE_CAPABILITY,
            driver=text(nvml.nvmlSystemGetDriverVersion()),
            temperature_c=None if temperature is None else float(temperature),
            power_w=None if power_mw is None else power_mw / 1000,
            warning="; ".join(self._warnings(nvml, handle, uuid)),
            processes=tuple(processes_on(nvml, handle)),
        )

    def _warnings(self, nvml: Nvml, handle: Any, uuid: str) -> Iterator[str]:
        reasons = optional(nvml, lambda: nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle)) or 0
        yield from (words for bit, words in THROTTLES.items() if reasons & bit)
        if uuid in self._told:
            yield self._told[uuid]

    def _reported(self) -> Iterator[Fault]:
        for uuid, xid in self._driver.xids():
            log.warning("gpu=%s reports Xid %s", uuid, xid)
            if xid in XID_LOST:
                yield Fault(uuid, XID_LOST[xid], is_lost=True)
            elif xid in XID_DRAINED:
                yield Fault(uuid, XID_DRAINED[xid], is_lost=False)
            elif xid in XID_TOLD:
                self._told[uuid] = XID_TOLD[xid]
