"""What an administrator does to a device."""

from __future__ import annotations

from django.contrib.auth.models import User

from jobs.doorbell import ring_on_commit
from jobs.models import Device
from wire.errors import ActionRefused, NotFound

MAX_REASON = 300


def device_drain(user: User, uuid: str, reason: str = "") -> Device:
    """Take a device out of service: what runs on it ends in peace, nothing new begins there.

    Raises:
        NotFound: there is no such device.
        ActionRefused: the user is no administrator.
    """
    device = _device_for(user, uuid)
    said = reason.strip()[:MAX_REASON]
    return _set(device, drained=True, drained_reason=said or f"taken out of service by {user.username}")


def device_restore(user: User, uuid: str) -> Device:
    """Put it back into service. One that the driver still finds lost goes out again within seconds.

    Raises:
        NotFound: there is no such device.
        ActionRefused: the user is no administrator.
    """
    device = _set(_device_for(user, uuid), drained=False, drained_reason="", lost=False)
    ring_on_commit()
    return device


def _device_for(user: User, uuid: str) -> Device:
    if not user.is_staff:
        raise ActionRefused("Only administrators take devices out of service.", hint="Ask an administrator.")
    device = Device.objects.filter(uuid=uuid).first()
    if device is None:
        raise NotFound(f"There is no device {uuid!r}.", hint="The list of devices is at /api/v1/devices.")
    return device


def _set(device: Device, **columns: bool | str) -> Device:
    Device.objects.filter(pk=device.pk).update(**columns)
    device.refresh_from_db()
    return device
