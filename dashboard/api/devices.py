from __future__ import annotations

from typing import Annotated

from ninja import Router, Schema
from pydantic import ConfigDict, Field

from dashboard.api.bodies import answers
from dashboard.visitor import SignedIn
from jobs.selectors import DeviceInfo
from jobs.selectors import devices_list as devices_known
from jobs.services import device_drain, device_restore

router = Router()


class OutOfService(Schema):
    model_config = ConfigDict(extra="forbid")

    reason: Annotated[str, Field(max_length=300)] = ""


@router.get("", response=answers(list[DeviceInfo]), summary="Devices")
def devices_list(request: SignedIn) -> list[DeviceInfo]:
    """Every GPU and processor slot with its use, what is wrong with it, and which run holds it."""
    return devices_known(request.user)


@router.post("/{uuid}/drain", response=answers(list[DeviceInfo]), summary="Take a device out of service")
def device_take_out(request: SignedIn, uuid: str, wish: OutOfService) -> list[DeviceInfo]:
    """What runs on it ends in peace; nothing new begins there. For administrators."""
    device_drain(request.user, uuid, wish.reason)
    return devices_known(request.user)


@router.post("/{uuid}/restore", response=answers(list[DeviceInfo]), summary="Put a device back into service")
def device_put_back(request: SignedIn, uuid: str) -> list[DeviceInfo]:
    """One that its driver still finds lost goes out again within seconds. For administrators."""
    device_restore(request.user, uuid)
    return devices_known(request.user)
