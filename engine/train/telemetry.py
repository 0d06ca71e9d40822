"""How busy the machine is while it trains: a thread that looks every two seconds."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Self

import psutil

from engine.emit import Sink, scalars
from wire.events import SeriesInfo

_INTERVAL_S = 2.0
_GIB = 2**30

log = logging.getLogger(__name__)


class Telemetry:
    """Emits CPU, RAM and GPU series at the training's present step, from entering to leaving.

    Args:
        gpu_uuids: the devices in use; ``gpu<i>`` counts within them.
        step: asked at each look.
    """

    def __init__(self, sink: Sink, gpu_uuids: Sequence[str], step: Callable[[], int]) -> None:
        self._sink = sink
        self._step = step
        self._gpus = [gpu for uuid in gpu_uuids if (gpu := _Gpu.open(uuid))]
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="telemetry", daemon=True)
        psutil.cpu_percent()  # the first call has nothing to compare with

    @property
    def series(self) -> tuple[SeriesInfo, ...]:
        machine = (SeriesInfo(name="cpu/util_pct", unit="%"), SeriesInfo(name="ram/used_gib", unit="GiB"))
        gpus = (
            SeriesInfo(name=f"gpu{i}/{name}", unit=unit)
            for i in range(len(self._gpus))
            for name, unit in (("util_pct", "%"), ("memory_gib", "GiB"), ("temperature_c", "°C"), ("power_w", "W"))
        )
        return (*machine, *gpus)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._closed.set()
        self._thread.join()

    def _run(self) -> None:
        while True:
            try:
                self._sink.emit(scalars(self._step(), self._look()))
            except OSError as error:  # a full disk; the training meets it too, and tells
                log.warning("The machine's state could not be written down: %s", error)
            if self._closed.wait(_INTERVAL_S):
                return

    def _look(self) -> dict[str, float]:
        values = {"cpu/util_pct": psutil.cpu_percent(), "ram/used_gib": psutil.virtual_memory().used / _GIB}
        for i, gpu in enumerate(self._gpus):
            values |= {f"gpu{i}/{name}": value for name, value in gpu.look().items()}
        return values


class _Gpu:
    def __init__(self, nvml: Any, handle: Any) -> None:
        self._nvml = nvml
        self._handle = handle

    @classmethod
    def open(cls, uuid: str) -> _Gpu | None:
        """The device, or None where the driver's library does not answer."""
        import pynvml

        try:
            pynvml.nvmlInit()
            return cls(pynvml, pynvml.nvmlDeviceGetHandleByUUID(uuid))
        except pynvml.NVMLError as error:
            log.warning("GPU %s tells nothing about its state: %s", uuid, error)
            return None

    def look(self) -> dict[str, float]:
        """What the device answers; some do not know their power or temperature."""
        nvml, handle = self._nvml, self._handle
        questions: dict[str, Callable[[], float]] = {
            "util_pct": lambda: nvml.nvmlDeviceGetUtilizationRates(handle).gpu,
            "memory_gib": lambda: nvml.nvmlDeviceGetMemoryInfo(handle).used / _GIB,
            "temperature_c": lambda: nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU),
            "power_w": lambda: nvml.nvmlDeviceGetPowerUsage(handle) / 1000,
        }
        answers: dict[str, float] = {}
        for name, ask in questions.items():
            try:
                answers[name] = float(ask())
            except nvml.NVMLError:
                continue
        return answers
