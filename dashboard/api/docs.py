from __future__ import annotations

from django.http import HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_GET

from dashboard.visitor import SignedIn


@require_GET
def docs(request: SignedIn) -> HttpResponse:
    """Every operation, to read and to try, drawn by the files that django-ninja brings along: no network is needed."""
    settings = {
        "url": reverse("api:openapi"),
        "layout": "BaseLayout",
        "deepLinking": True,
        "persistAuthorization": False,
        # The badge would be an image of a public validator.
        "validatorUrl": None,
    }
    return render(request, "api/docs.html", {"settings": settings})
