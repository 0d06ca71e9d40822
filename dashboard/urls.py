from __future__ import annotations

from django.contrib.auth.views import LogoutView
from django.urls import URLPattern, URLResolver, path
from django.views.generic import RedirectView

from dashboard.api.docs import docs
from dashboard.api.root import api
from dashboard.views import accounts, health, people

urlpatterns: list[URLPattern | URLResolver] = [
    path("login/", accounts.SignIn.as_view(), name="login"),
    path("logout/", LogoutView.as_view(), name="logout"),
    path("setup/", accounts.setup, name="setup"),
    path("invite/<str:token>/", accounts.invite, name="invite"),
    path("settings/account/", accounts.account, name="account"),
    path("settings/tokens/", people.tokens, name="tokens"),
    path("settings/tokens/<int:token_id>/revoke", people.token_end, name="token-revoke"),
    path("settings/users/", people.users, name="users"),
    path("settings/users/<int:user_id>/", people.user_change, name="user-change"),
    path("api/v1/", RedirectView.as_view(pattern_name="api-docs")),
    path("api/v1/docs", docs, name="api-docs"),
    path("api/v1/", api.urls),
    path("healthz", health.healthz, name="healthz"),
    path("readyz", health.readyz, name="readyz"),
]
