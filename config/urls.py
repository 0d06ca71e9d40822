from __future__ import annotations

from django.urls import include, path

urlpatterns = [path("", include("dashboard.urls"))]

handler400 = "dashboard.errors.bad_request"
handler403 = "dashboard.errors.forbidden"
handler404 = "dashboard.errors.not_found"
handler500 = "dashboard.errors.server_error"
