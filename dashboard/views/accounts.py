"""Signing in and out, the first visit, one-time links and one's own account."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.contrib.auth import login
from django.contrib.auth.decorators import login_not_required
from django.contrib.auth.views import LoginView
from django.forms import Form
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.decorators import method_decorator
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods

from dashboard import accounts
from dashboard.attempts import SETUP, SIGN_IN, SIGN_IN_OF_ADDRESS
from dashboard.errors import RequestInvalid
from dashboard.forms.accounts import (
    InvitationForm,
    OwnPasswordForm,
    PasswordForm,
    ProfileForm,
    SetupForm,
    SignInForm,
)
from dashboard.visitor import SignedIn

YEAR_S = 31_536_000
MODEL_BACKEND = "django.contrib.auth.backends.ModelBackend"
form_view = require_http_methods(["GET", "HEAD", "POST"])


def _address(request: HttpRequest) -> str:
    return str(request.META.get("REMOTE_ADDR", ""))


@method_decorator(login_not_required, name="dispatch")
class SignIn(LoginView):
    template_name = "accounts/login.html"
    authentication_form = SignInForm
    redirect_authenticated_user = True

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        if accounts.setup_needed():
            return redirect("setup")
        return super().dispatch(request, *args, **kwargs)

    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        address = _address(request)
        key = (request.POST.get("username", "").casefold()[:150], address)
        SIGN_IN_OF_ADDRESS.attempt(address)
        SIGN_IN.attempt(*key)
        response = super().post(request, *args, **kwargs)
        if request.user.is_authenticated:
            SIGN_IN.succeeded(*key)
            SIGN_IN_OF_ADDRESS.take_back(address)
        return response


@login_not_required
@form_view
@never_cache
@sensitive_post_parameters()
def setup(request: HttpRequest) -> HttpResponse:
    if not accounts.setup_needed():
        return redirect("home")
    form = SetupForm(request.POST or None)
    if request.method == "POST":
        SETUP.attempt(_address(request))
        if form.is_valid():
            given = form.cleaned_data
            try:
                user = accounts.administrator_create(given["code"], given["username"], given["password"])
            except RequestInvalid as error:
                _show(form, error)
            else:
                SETUP.succeeded(_address(request))
                login(request, user, backend=MODEL_BACKEND)
                return redirect("home")
    accounts.setup_code()
    status = 422 if form.errors else 200
    return render(
        request, "accounts/setup.html", {"form": form, "code_file": accounts.setup_code_path().name}, status=status
    )


@login_not_required
@form_view
@never_cache
@sensitive_post_parameters()
def invite(request: HttpRequest, token: str) -> HttpResponse:
    """An invitation or a new password: whoever holds the link chooses the password and is signed in."""
    owner = accounts.link_user(token)
    invited = accounts.is_invited(owner)
    form = (InvitationForm if invited else PasswordForm)(request.POST or None)
    if request.method == "POST" and form.is_valid():
        try:
            user = accounts.link_use(
                token, name=form.cleaned_data.get("username", ""), password=form.cleaned_data["password"]
            )
        except RequestInvalid as error:
            _show(form, error)
        else:
            login(request, user, backend=MODEL_BACKEND)
            return redirect("home")
    context = {"form": form, "invited": invited, "username": owner.username}
    page = render(request, "accounts/invite.html", context, status=422 if form.errors else 200)
    # Its style sheets are asked for without its address, which a proxy would write into its log.
    page.headers["Referrer-Policy"] = "strict-origin"
    return page


def _show(form: Form, error: RequestInvalid) -> None:
    for field, text in error.fields.items():
        form.add_error(field, text)


@form_view
@sensitive_post_parameters()
def account(request: SignedIn) -> HttpResponse:
    user = request.user
    sent = request.POST.get("form", "")
    theme = request.COOKIES.get("theme", "system")
    profile = ProfileForm(
        request.POST if sent == "profile" else None, initial={"display_name": user.first_name, "theme": theme}
    )
    password = OwnPasswordForm(user, request.POST if sent == "password" else None)
    if sent == "profile" and profile.is_valid():
        accounts.own_name_change(user, profile.cleaned_data["display_name"])
        messages.success(request, "Saved.")
        response = redirect("account")
        response.set_cookie(
            "theme", profile.cleaned_data["theme"], max_age=YEAR_S, samesite="Lax", path=reverse("home")
        )
        return response
    if sent == "password" and password.is_valid():
        accounts.own_password_change(request, user, password.cleaned_data["password"])
        messages.success(request, "The password is changed. Other browsers are signed out.")
        return redirect("account")
    status = 422 if profile.errors or password.errors else 200
    context = {"nav": "account", "profile": profile, "password": password}
    return render(request, "accounts/account.html", context, status=status)
