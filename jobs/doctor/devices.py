from __future__ import annotations

from collections.abc import Iterator

from jobs.devices import present
from jobs.doctor.finding import Finding, ok, warning
from jobs.models import Device


def devices() -> Iterator[Finding]:
    name = "devices.devices"
    found = present(Device.objects.order_by("host", "-kind", "name"), also_lost=True)
    if not found:
        yield warning(name, "No device is known.", "Start Fovea: the agent looks for devices when it begins.")
    for device in found:
        driver = f", driver {device.driver}" if device.driver else ""
        where = f"{device.name} on {device.host}{driver}"
        if device.lost:
            yield warning(name, f"{where} does not answer.", "Look at the machine; a restart of it usually helps.")
        elif device.drained:
            reason = f": {device.drained_reason}" if device.drained_reason else ""
            yield warning(name, f"{where} is out of service{reason}.", "Put it back when it is mended.")
        else:
            yield ok(name, f"{where}.")
    if found and not any(device.kind == "cuda" for device in found):
        yield ok(name, "There is no GPU: trainings run on the CPU.")
