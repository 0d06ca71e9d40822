"""Tokens of one's own, and, for administrators, everybody's accounts."""

from __future__ import annotations

from collections.abc import Callable

from django.contrib import messages
from django.contrib.auth.models import User
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST

from dashboard import accounts
from dashboard.errors import RequestInvalid
from dashboard.forms.accounts import InviteForm, TokenForm
from dashboard.views.accounts import form_view
from dashboard.visitor import SignedIn
from jobs.services import token_create, token_revoke


@form_view
@never_cache
def tokens(request: SignedIn) -> HttpResponse:
    user = request.user
    form = TokenForm(request.POST or None)
    context: dict[str, object] = {"nav": "tokens", "form": form}
    if request.method == "POST" and form.is_valid():
        context["made"], context["secret"] = token_create(
            user, form.cleaned_data["name"], scope=form.cleaned_data["scope"]
        )
        context["form"] = TokenForm()
    context["tokens"] = user.tokens.order_by("-created_at", "-pk")
    return render(request, "accounts/tokens.html", context, status=422 if form.errors else 200)


@require_POST
def token_end(request: SignedIn, token_id: int) -> HttpResponse:
    token_revoke(request.user, token_id)
    messages.success(request, "The token is revoked.")
    return redirect("tokens")


@form_view
@never_cache
def users(request: SignedIn) -> HttpResponse:
    by = request.user
    form = InviteForm(request.POST or None)
    link = None
    if request.method == "POST" and form.is_valid():
        invited = accounts.user_invite(by, form.cleaned_data["display_name"])
        link = _link(request, invited)
        form = InviteForm()
    return _users_page(request, by, form, link)


@require_POST
@never_cache
def user_change(request: SignedIn, user_id: int) -> HttpResponse:
    """One of the buttons beside an account: ``change`` says which."""
    by = request.user
    change = request.POST.get("change", "")
    if change == "link":
        user = accounts.link_renew(by, user_id)
        return _users_page(request, by, InviteForm(), _link(request, user))
    if change not in CHANGES:
        raise RequestInvalid(f"There is no change called {change!r}.", hint="Use the buttons of the page.")
    messages.success(request, CHANGES[change](by, user_id))
    return redirect("users")


def _withdraw(by: User, user_id: int) -> str:
    accounts.invitation_withdraw(by, user_id)
    return "The invitation is withdrawn."


CHANGES: dict[str, Callable[[User, int], str]] = {
    "withdraw": _withdraw,
    "activate": lambda by, pk: f"{accounts.user_change(by, pk, active=True)} can sign in again.",
    "deactivate": lambda by, pk: f"{accounts.user_change(by, pk, active=False)} is deactivated.",
    "administrator": lambda by, pk: f"{accounts.user_change(by, pk, administrator=True)} is an administrator now.",
    "member": lambda by, pk: f"{accounts.user_change(by, pk, administrator=False)} is a member now.",
}


def _link(request: SignedIn, user: User) -> dict[str, str]:
    """A link to copy, and what to do with it."""
    name = (user.first_name or "the new user") if accounts.is_invited(user) else user.username
    return {"url": request.build_absolute_uri(accounts.link_path(user)), "words": f"Give this link to {name}."}


def _users_page(request: SignedIn, by: User, form: InviteForm, link: dict[str, str] | None) -> HttpResponse:
    context = {"nav": "users", "people": accounts.people_list(by), "form": form, "link": link}
    return render(request, "accounts/users.html", context, status=422 if form.errors else 200)
