from __future__ import annotations

from ninja import Router

from dashboard.api.bodies import answers
from dashboard.visitor import SignedIn
from jobs.selectors import DeviceInfo
from jobs.selectors import devices_list as devices_known

router = Router()


@router.get("", response=answers(list[DeviceInfo]), summary="Devices")
def devices_list(request: SignedIn) -> list[DeviceInfo]:
    """Every GPU and processor slot with its use, and which run holds it."""
    return devices_known(request.user)
