"""Oneself, one's tokens, and, for administrators, everybody's accounts."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from django.contrib.auth.models import User
from ninja import Router, Schema, Status
from pydantic import ConfigDict, Field

from dashboard import accounts
from dashboard.accounts import Person
from dashboard.api.bodies import answers
from dashboard.errors import RequestInvalid
from dashboard.forms.accounts import OwnPasswordForm
from dashboard.visitor import SignedIn
from jobs.models import ApiToken
from jobs.services import token_create, token_revoke

router = Router()


PASSWORD_FIELDS = {"old": "current", "password": "new", "again": "new"}
"""Of the page's form, by their names here."""


class OwnChange(Schema):
    model_config = ConfigDict(extra="forbid")

    display_name: Annotated[str, Field(max_length=150)] | None = None


class PasswordWish(Schema):
    model_config = ConfigDict(extra="forbid")

    current: str
    new: Annotated[str, Field(min_length=1)]


class TokenOut(Schema):
    id: int
    name: str
    prefix: str
    scope: Literal["read", "write"]
    created_at: datetime
    expires_at: datetime | None
    used_at: datetime | None


class TokenMade(TokenOut):
    secret: str
    """Shown this once."""


class TokenWish(Schema):
    model_config = ConfigDict(extra="forbid")

    name: Annotated[str, Field(min_length=1, max_length=80)]
    scope: Literal["read", "write"] = "write"


class InvitationWish(Schema):
    model_config = ConfigDict(extra="forbid")

    display_name: Annotated[str, Field(max_length=150)] = ""


class LinkOut(Schema):
    """Whoever opens the link chooses the account's password; it works once, for seven days."""

    user: Person
    link: str


class PersonChange(Schema):
    model_config = ConfigDict(extra="forbid")

    active: bool | None = None
    administrator: bool | None = None


@router.get("/me", response=answers(Person), summary="Who is calling")
def me(request: SignedIn) -> Person:
    return accounts.person_of(request.user)


@router.patch("/me", response=answers(Person), summary="Change one's own display name")
def me_change(request: SignedIn, change: OwnChange) -> Person:
    if change.display_name is not None:
        accounts.own_name_change(request.user, change.display_name)
    return accounts.person_of(request.user)


@router.post("/me/password", response=answers(None, status=204), summary="Change one's own password")
def me_password(request: SignedIn, wish: PasswordWish) -> Status[None]:
    """Other sessions end; tokens stay."""
    form = OwnPasswordForm(request.user, {"old": wish.current, "password": wish.new, "again": wish.new})
    if not form.is_valid():
        fields = {PASSWORD_FIELDS[name]: " ".join(map(str, texts)) for name, texts in form.errors.items()}
        name, text = next(iter(fields.items()))
        raise RequestInvalid(f"{name}: {text}", hint="The password was not changed.", fields=fields)
    accounts.own_password_change(request, request.user, wish.new)
    return Status(204, None)


@router.get("/tokens", response=answers(list[TokenOut]), summary="Own tokens")
def tokens_list(request: SignedIn) -> list[ApiToken]:
    return list(request.user.tokens.order_by("-created_at", "-pk"))


@router.post("/tokens", response=answers(TokenMade, status=201), summary="Make a token")
def token_make(request: SignedIn, wish: TokenWish) -> Status[TokenMade]:
    token, secret = token_create(request.user, wish.name, scope=wish.scope)
    token.refresh_from_db()
    return Status(201, TokenMade(**TokenOut.from_orm(token).dict(), secret=secret))


@router.delete("/tokens/{int:token_id}", response=answers(None, status=204), summary="Revoke a token")
def token_end(request: SignedIn, token_id: int) -> Status[None]:
    token_revoke(request.user, token_id)
    return Status(204, None)


@router.get("/users", response=answers(list[Person]), summary="Everybody")
def users_list(request: SignedIn) -> list[Person]:
    return accounts.people_list(request.user)


@router.post("/users", response=answers(LinkOut, status=201), summary="Invite somebody")
def user_invite(request: SignedIn, wish: InvitationWish) -> Status[LinkOut]:
    user = accounts.user_invite(request.user, wish.display_name)
    return Status(201, _link(request, user))


@router.patch("/users/{int:user_id}", response=answers(Person), summary="Change an account")
def user_change(request: SignedIn, user_id: int, change: PersonChange) -> Person:
    by = request.user
    user = accounts.user_change(by, user_id, active=change.active, administrator=change.administrator)
    return accounts.person_of(user)


@router.post("/users/{int:user_id}/link", response=answers(LinkOut), summary="New link for an account")
def user_link(request: SignedIn, user_id: int) -> LinkOut:
    """A new link for an invitation or a forgotten password."""
    return _link(request, accounts.link_renew(request.user, user_id))


@router.delete("/users/{int:user_id}", response=answers(None, status=204), summary="Withdraw an invitation")
def invitation_end(request: SignedIn, user_id: int) -> Status[None]:
    """Withdraw an open invitation. An account is never deleted, only deactivated."""
    accounts.invitation_withdraw(request.user, user_id)
    return Status(204, None)


def _link(request: SignedIn, user: User) -> LinkOut:
    return LinkOut(user=accounts.person_of(user), link=request.build_absolute_uri(accounts.link_path(user)))
