"""People: the first administrator, one-time links instead of e-mail, and who may do what with whose account.

An account is Django's own user; ``is_staff`` means administrator. An invitation is an account that cannot sign in yet:
not active, without a usable password and named by chance, until whoever opens its link chooses a name and a password.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from django.conf import settings
from django.contrib.auth import SESSION_KEY, update_session_auth_hash
from django.contrib.auth.hashers import UNUSABLE_PASSWORD_PREFIX
from django.contrib.auth.models import User
from django.core import signing
from django.db import IntegrityError, transaction
from django.db.models import Q
from django.http import HttpRequest
from django.urls import reverse
from django.utils.crypto import constant_time_compare, salted_hmac

from dashboard.errors import LinkSpent, NotPermitted, RequestInvalid
from wire.errors import ActionRefused, NotFound

LINK_AGE = timedelta(days=7)
LINK_SALT = "fovea.accounts.link"
# Without letters and digits that are taken for one another: the code is read from a terminal.
CODE_ALPHABET = "ABCDEFGHJKMNPQRSTVWXYZ23456789"
CODE_GROUPS = 4


@dataclass(frozen=True, slots=True)
class Person:
    """An account as administrators see it."""

    id: int
    name: str
    display_name: str
    administrator: bool
    active: bool
    invited: bool
    joined_at: datetime
    last_login_at: datetime | None


def setup_needed() -> bool:
    """Whether nobody administers this server yet; accounts that a management command made do not count."""
    return not User.objects.filter(is_staff=True).exists()


def setup_code_path() -> Path:
    return Path(settings.DATA_DIR) / "setup-code"


def setup_code() -> str:
    """The code that the first visitor must know, from its file; made where there is none."""
    path = setup_code_path()
    if not path.exists():
        groups = ("".join(secrets.choice(CODE_ALPHABET) for _ in range(4)) for _ in range(CODE_GROUPS))
        path.parent.mkdir(parents=True, exist_ok=True)
        # Written beside and linked into place: nobody reads half a code, and of two makers the first one wins.
        beside = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
        beside.touch(mode=0o600, exist_ok=False)
        beside.write_text("-".join(groups) + "\n")
        try:
            path.hardlink_to(beside)
        except FileExistsError:
            pass
        finally:
            beside.unlink()
    return path.read_text().strip()


def administrator_create(code: str, name: str, password: str) -> User:
    """The first administrator.

    Raises:
        ActionRefused: There is one already, or another request is making one.
        RequestInvalid: The code is not the one in the file, or an account has the name.
    """
    if not setup_needed():
        raise ActionRefused(
            "This server is set up already.", hint="Sign in, or ask an administrator for an invitation."
        )
    if not constant_time_compare(_bare(code), _bare(setup_code())):
        hint = (
            "It stands beside the address where the server was started, and in the file setup-code of its data folder."
        )
        raise RequestInvalid("This is not the set-up code.", hint=hint, fields={"code": "This is not the set-up code."})
    if User.objects.filter(username=name).exists():
        raise _name_taken(name)
    try:
        # Whoever removes the file makes the account: of two requests at once, one.
        setup_code_path().unlink()
    except FileNotFoundError:
        raise ActionRefused("This server is being set up already.", hint="Sign in.") from None
    return User.objects.create_user(name, password=password, is_staff=True)


def _bare(code: str) -> str:
    return "".join(character for character in code.upper() if character.isalnum())


def _invited() -> Q:
    return Q(is_active=False, last_login=None, password__startswith=UNUSABLE_PASSWORD_PREFIX)


def is_invited(user: User) -> bool:
    return not user.is_active and user.last_login is None and not user.has_usable_password()


def person_of(user: User) -> Person:
    invited = is_invited(user)
    return Person(
        id=user.pk,
        name="" if invited else user.username,
        display_name=user.first_name,
        administrator=user.is_staff,
        active=user.is_active,
        invited=invited,
        joined_at=user.date_joined,
        last_login_at=user.last_login,
    )


def people_list(by: User) -> list[Person]:
    """Everybody, invitations last.

    Raises:
        NotPermitted: ``by`` is no administrator; so do all functions below that take ``by``.
    """
    _require_administrator(by)
    people = [person_of(user) for user in User.objects.order_by("username")]
    return sorted(people, key=lambda person: (person.invited, person.name.casefold(), person.id))


def user_invite(by: User, display_name: str = "") -> User:
    _require_administrator(by)
    return User.objects.create_user(f"invited-{secrets.token_hex(8)}", first_name=display_name, is_active=False)


def link_path(user: User) -> str:
    """A path that lets whoever opens it choose this account's password, once, within seven days."""
    token = signing.dumps({"user": user.pk, "state": _state(user)}, salt=LINK_SALT)
    return reverse("invite", args=[token])


def link_renew(by: User, user_id: int) -> User:
    """Prepare an account for a new ``link_path``; the links that an invitation had before are dead.

    Raises:
        ActionRefused: The account is deactivated.
    """
    _require_administrator(by)
    user = _account(user_id)
    if is_invited(user):
        user.set_unusable_password()
        user.save(update_fields=["password"])
    elif not user.is_active:
        raise ActionRefused(f"{user.username} is deactivated.", hint="Reactivate the account first.")
    return user


def link_user(token: str, *, lock: bool = False) -> User:
    """Whose account the link opens; with ``lock``, held until the end of the transaction.

    Raises:
        LinkSpent: It was used, replaced, has expired or was never made here.
    """
    spent = LinkSpent("This link does not work any more.", hint="Links work once, for seven days. Ask for a new one.")
    accounts = User.objects.select_for_update() if lock else User.objects.all()
    try:
        claim = signing.loads(token, salt=LINK_SALT, max_age=LINK_AGE)
        user = accounts.get(pk=claim["user"])
    except (signing.BadSignature, User.DoesNotExist):
        raise spent from None
    if not (is_invited(user) or user.is_active) or not constant_time_compare(claim["state"], _state(user)):
        raise spent
    return user


def link_use(token: str, *, name: str, password: str) -> User:
    """Set the password and, for an invitation, the name; the link is dead afterwards.

    Raises:
        LinkSpent: Like ``link_user``.
        RequestInvalid: Somebody has this name.
    """
    with transaction.atomic():
        user = link_user(token, lock=True)
        if is_invited(user):
            user.username = name
            user.is_active = True
        user.set_password(password)
        try:
            with transaction.atomic():
                user.save(update_fields=["username", "is_active", "password"])
        except IntegrityError:
            raise _name_taken(name) from None
    return user


def _name_taken(name: str) -> RequestInvalid:
    words = f"The name {name!r} is taken."
    return RequestInvalid(words, hint="Choose another.", fields={"username": words})


def _state(user: User) -> str:
    """Changes with a password and with a sign-in, so that each of them ends the links made before."""
    last_login = user.last_login.isoformat() if user.last_login else ""
    return salted_hmac(LINK_SALT, f"{user.pk}:{user.password}:{last_login}").hexdigest()


def own_name_change(user: User, display_name: str) -> None:
    user.first_name = display_name
    user.save(update_fields=["first_name"])


def own_password_change(request: HttpRequest, user: User, password: str) -> None:
    """End all sessions of the user but the one that asks; tokens stay."""
    user.set_password(password)
    user.save(update_fields=["password"])
    # A token may be sent beside the session of somebody else, which is left as it is.
    if request.session.get(SESSION_KEY) == str(user.pk):
        update_session_auth_hash(request, user)


def invitation_withdraw(by: User, user_id: int) -> None:
    """Raises NotFound where there is no such invitation."""
    _require_administrator(by)
    deleted, _ = User.objects.filter(_invited(), pk=user_id).delete()
    if not deleted:
        raise NotFound(f"There is no invitation {user_id}.", hint="It may have been accepted. Reload the page.")


@transaction.atomic
def user_change(by: User, user_id: int, *, active: bool | None = None, administrator: bool | None = None) -> User:
    """Deactivate, reactivate, make administrator or not; None leaves it.

    Sessions and tokens of a deactivated account stop at once; its jobs go on.

    Raises:
        ActionRefused: It is one's own account, nobody would be left to administer, or it is an open invitation.
    """
    _require_administrator(by)
    user = _account(user_id)
    if is_invited(user):
        raise ActionRefused("This invitation is still open.", hint="Withdraw it, or make a new link.")
    if active is False and user.pk == by.pk:
        raise ActionRefused("You cannot deactivate your own account.", hint="Another administrator can.")
    if active is False or administrator is False:
        _require_another_administrator(user)
    user.is_active = user.is_active if active is None else active
    user.is_staff = user.is_staff if administrator is None else administrator
    user.save(update_fields=["is_active", "is_staff"])
    return user


def _account(user_id: int) -> User:
    try:
        return User.objects.get(pk=user_id)
    except User.DoesNotExist:
        raise NotFound(f"There is no user {user_id}.", hint="Reload the page.") from None


def _require_administrator(by: User) -> None:
    if not (by.is_active and by.is_staff):
        raise NotPermitted("Only administrators manage users.", hint="Ask an administrator.")


def _require_another_administrator(user: User) -> None:
    # All of them are locked, in one order, so that two who remove each other at once do not both succeed.
    administrators = User.objects.select_for_update().filter(is_staff=True, is_active=True).order_by("pk")
    if not set(administrators.values_list("pk", flat=True)) - {user.pk}:
        raise ActionRefused(
            f"{user.username} is the last administrator.", hint="Make somebody else administrator first."
        )
