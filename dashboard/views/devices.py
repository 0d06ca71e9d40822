"""What this installation computes on: every device with its state, and, for administrators, in and out of service."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_POST

from dashboard.errors import RequestInvalid
from dashboard.visitor import SignedIn
from jobs.selectors import devices_list
from jobs.services import device_drain, device_restore


@require_GET
@never_cache
def devices(request: SignedIn) -> HttpResponse:
    return render(request, "devices/devices.html", {"nav": "devices", "devices": devices_list(request.user)})


@require_POST
def device_change(request: SignedIn) -> HttpResponse:
    """One of the buttons beside a device: ``change`` says which."""
    uuid = request.POST.get("uuid", "")
    match request.POST.get("change"):
        case "drain":
            device = device_drain(request.user, uuid, request.POST.get("reason", ""))
            messages.success(request, f"{device.name} is out of service. What runs on it ends in peace.")
        case "restore":
            device = device_restore(request.user, uuid)
            messages.success(request, f"{device.name} is in service again.")
        case other:
            raise RequestInvalid(f"There is no change called {other!r}.", hint="Use the buttons of the page.")
    return redirect("devices")
