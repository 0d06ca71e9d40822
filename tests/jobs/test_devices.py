from __future__ import annotations

from jobs import devices


class Nvml:
    """A driver that is there and does not answer."""

    class NVMLError(Exception):
        pass

    def nvmlDeviceGetCount(self):
        raise self.NVMLError("driver/library version mismatch")


def test_a_driver_that_does_not_answer_is_no_gpu_and_is_said_once(monkeypatch, caplog):
    devices._warn_once.cache_clear()
    nvml = Nvml()
    monkeypatch.setattr(devices, "_nvml", lambda: nvml)
    assert [devices.read_gpus() for _ in range(2)] == [[], []]
    assert caplog.text.count("driver/library version mismatch") == 1
