from __future__ import annotations

import errno
import sys
from types import SimpleNamespace
from typing import Any

from engine.emit import MemorySink
from engine.train.telemetry import Telemetry
from engine.train.throughput import Throughput
from tests.surroundings import until
from wire.events import Event, Scalars


class NvmlError(Exception):
    pass


class Driver:
    """Stands for the driver's library, which machines without a GPU lack: two GPUs, one of which knows no power."""

    NVMLError = NvmlError
    NVML_TEMPERATURE_GPU = 0

    def nvmlInit(self) -> None:
        pass

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> str:
        if uuid not in ("GPU-a", "GPU-b"):
            raise NvmlError("Not Found")
        return uuid

    def nvmlDeviceGetUtilizationRates(self, _handle: str) -> Any:
        return SimpleNamespace(gpu=87)

    def nvmlDeviceGetMemoryInfo(self, _handle: str) -> Any:
        return SimpleNamespace(used=3 * 2**30)

    def nvmlDeviceGetTemperature(self, _handle: str, _sensor: int) -> int:
        return 61

    def nvmlDeviceGetPowerUsage(self, handle: str) -> int:
        if handle == "GPU-b":
            raise NvmlError("Not Supported")
        return 412_500


def _first_look(*uuids: str) -> tuple[set[str], Scalars]:
    sink = MemorySink()
    telemetry = Telemetry(sink, uuids, step=lambda: 42)
    with telemetry:
        until(lambda: sink.events)
    event = sink.events[0]
    assert isinstance(event, Scalars)
    return {info.name for info in telemetry.series}, event


def test_the_first_look_is_at_once_and_at_the_present_step():
    declared, event = _first_look()
    assert event.step == 42
    assert set(event.values) == declared == {"cpu/util_pct", "ram/used_gib"}
    assert event.values["ram/used_gib"] > 0


def test_each_gpu_in_use_is_told_by_its_place(monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", Driver())
    declared, event = _first_look("GPU-a", "GPU-b", "GPU-gone")
    gpus = {name: value for name, value in event.values.items() if name.startswith("gpu")}
    assert gpus == {
        "gpu0/util_pct": 87, "gpu0/memory_gib": 3, "gpu0/temperature_c": 61, "gpu0/power_w": 412.5,
        "gpu1/util_pct": 87, "gpu1/memory_gib": 3, "gpu1/temperature_c": 61,
    }  # fmt: skip
    assert set(event.values) <= declared
    assert not any(name.startswith("gpu2") for name in declared)


def test_a_full_disk_does_not_end_the_thread(caplog):
    class FullSink(MemorySink):
        def emit(self, event: Event) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

    with Telemetry(FullSink(), (), step=lambda: 0) as telemetry:
        until(lambda: caplog.records)
        assert telemetry._thread.is_alive()
    assert "No space left" in caplog.text


def test_throughput_counts_from_reading_to_reading():
    now = 0.0
    throughput = Throughput(clock=lambda: now)
    throughput.add(64, 0.5)
    throughput.add(64, 0.5)
    now = 4.0
    assert throughput.read() == {"time/images_s": 32.0, "time/data_wait_pct": 25.0}
    assert throughput.read() == {}
    throughput.add(10, 1.0)
    throughput.restart()
    now = 5.0
    throughput.add(30, 0.0)
    now = 6.0
    assert throughput.read() == {"time/images_s": 15.0, "time/data_wait_pct": 0.0}
