from __future__ import annotations

import re
import stat
from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.core import signing
from django.test import Client

from dashboard import accounts
from dashboard.attempts import SETUP, SIGN_IN, SIGN_IN_OF_ADDRESS, AttemptLimit
from dashboard.errors import LinkSpent, NotPermitted, TooManyAttempts
from jobs.services import token_create
from wire.errors import ActionRefused

PASSWORD = "correct horse battery"  # noqa: S105
CHOSEN = {"username": "edith", "password": "staple of the wind", "again": "staple of the wind"}


@pytest.fixture(autouse=True)
def _attempts_are_forgotten():
    SETUP.forget()
    SIGN_IN.forget()
    SIGN_IN_OF_ADDRESS.forget()
    yield
    accounts.setup_code_path().unlink(missing_ok=True)


# The first visit.


@pytest.mark.django_db
@pytest.mark.parametrize("path", ["/", "/runs/new", "/settings/tokens/", "/login/"])
def test_every_page_leads_to_the_set_up_while_there_is_no_administrator(client, path):
    assert client.get(path).headers["Location"] == "/setup/"


@pytest.mark.django_db
def test_a_fragment_leads_the_whole_page_to_the_set_up(client):
    assert client.get("/", headers={"HX-Request": "true"}).headers["HX-Redirect"] == "/setup/"


@pytest.mark.django_db
def test_the_first_visitor_needs_the_code_and_becomes_administrator(client):
    code = accounts.setup_code()
    assert stat.S_IMODE(accounts.setup_code_path().stat().st_mode) == 0o600
    assert accounts.setup_code() == code

    for wrong in ("", "AAAA-AAAA-AAAA-AAAA", code[:-1]):
        page = client.post("/setup/", CHOSEN | {"code": wrong})
        assert page.status_code == 422
        assert "field-error" in page.content.decode()
        assert not User.objects.exists()

    answer = client.post("/setup/", CHOSEN | {"code": code.lower().replace("-", " ")})
    assert answer.headers["Location"] == "/"
    assert client.get("/api/v1/me").json()["administrator"] is True
    assert not accounts.setup_code_path().exists()


@pytest.mark.django_db
def test_the_set_up_happens_once(client):
    code = accounts.setup_code()
    client.post("/setup/", CHOSEN | {"code": code})
    again = Client().post("/setup/", CHOSEN | {"code": code, "username": "second"})
    assert again.headers["Location"] == "/"
    with pytest.raises(ActionRefused):
        accounts.administrator_create(code, "second", PASSWORD)
    assert User.objects.count() == 1


def test_an_account_of_a_command_does_not_stand_in_for_the_administrator(client, user):
    assert client.get("/").headers["Location"] == "/setup/"
    code = accounts.setup_code()
    taken = client.post("/setup/", CHOSEN | {"code": code, "username": "ada"})
    assert 'id="id_username-error"' in taken.content.decode()
    assert client.post("/setup/", CHOSEN | {"code": code}).headers["Location"] == "/"
    assert [person.name for person in accounts.people_list(User.objects.get(username="edith"))] == ["ada", "edith"]


@pytest.mark.django_db
def test_of_two_who_set_up_at_once_one_wins(monkeypatch):
    """Both have seen that there is no account; the code's file decides."""
    code = accounts.setup_code()
    accounts.administrator_create(code, "first", PASSWORD)
    monkeypatch.setattr(accounts, "setup_needed", lambda: True)
    monkeypatch.setattr(accounts, "setup_code", lambda: code)
    with pytest.raises(ActionRefused):
        accounts.administrator_create(code, "second", PASSWORD)


@pytest.mark.django_db
def test_the_set_up_code_cannot_be_guessed_at_will(client):
    for _ in range(10):
        assert client.post("/setup/", CHOSEN | {"code": "WRONG"}).status_code == 422
    refused = client.post("/setup/", CHOSEN | {"code": accounts.setup_code()})
    assert refused.status_code == 429
    assert "auth.too_many_attempts" in refused.content.decode()


# Signing in and out.


def test_a_limit_counts_by_key_forgets_with_time_and_on_success():
    now = 0.0
    limit = AttemptLimit(2, 60, clock=lambda: now)
    for _ in range(2):
        limit.attempt("ada", "::1")
    with pytest.raises(TooManyAttempts):
        limit.attempt("ada", "::1")
    limit.attempt("ada", "::2")
    limit.attempt("ada", "::2")
    limit.succeeded("ada", "::2")
    limit.attempt("ada", "::2")
    now = 60.0
    limit.attempt("ada", "::1")


def test_an_attempt_that_succeeded_is_taken_back_alone():
    limit = AttemptLimit(2, 60)
    limit.take_back("::1")
    limit.attempt("::1")
    limit.attempt("::1")
    limit.take_back("::1")
    limit.attempt("::1")
    with pytest.raises(TooManyAttempts):
        limit.attempt("::1")


def test_one_address_does_not_guess_for_name_after_name(client, user, admin_user):
    right, wrong = {"username": "ada", "password": PASSWORD}, {"password": "wrong"}
    for n in range(60):
        assert client.post("/login/", wrong | {"username": f"name{n}"}).status_code != 429
    assert Client().post("/login/", right).status_code == 302
    for n in range(60, 100):
        assert client.post("/login/", wrong | {"username": f"name{n}"}).status_code != 429
    assert client.post("/login/", right).status_code == 429
    assert client.post("/login/", right, REMOTE_ADDR="10.0.0.2").status_code == 302


def test_signing_in_leads_to_where_one_wanted_to_go(client, user, admin_user):
    answer = client.post("/login/", {"username": "ada", "password": PASSWORD, "next": "/settings/tokens/"})
    assert answer.headers["Location"] == "/settings/tokens/"
    cookie = answer.cookies["sessionid"]
    assert cookie["httponly"]
    assert cookie["samesite"] == "Lax"


def test_signing_in_leads_to_no_other_site(client, user, admin_user):
    answer = client.post("/login/", {"username": "ada", "password": PASSWORD, "next": "https://elsewhere.example/"})
    assert answer.headers["Location"] == "/"


def test_a_wrong_password_is_refused_in_words_and_then_for_a_while(client, user, other_user, admin_user):
    for _ in range(10):
        assert "do not go together" in client.post("/login/", {"username": "ada", "password": "no"}).content.decode()
    assert client.post("/login/", {"username": "ADA", "password": PASSWORD}).status_code == 429
    assert client.post("/login/", {"username": "grace", "password": PASSWORD}).status_code == 302


def test_signing_out_needs_a_post(api):
    assert api.get("/logout/").status_code == 405
    assert api.post("/logout/").headers["Location"] == "/login/"
    assert api.get("/api/v1/me").status_code == 401


# One-time links.


def link_of(page):
    return re.search(r"http://testserver(/invite/[^<]+)", page.content.decode())[1]


@pytest.fixture
def administration(admin_user):
    browser = Client()
    browser.force_login(admin_user)
    return browser


def test_an_invitation_makes_an_account_once(administration, client):
    link = link_of(administration.post("/settings/users/", {"display_name": "Edith"}))
    assert "Welcome" in client.get(link).content.decode()
    assert client.post(link, CHOSEN).headers["Location"] == "/"
    me = client.get("/api/v1/me").json()
    assert (me["name"], me["display_name"], me["administrator"]) == ("edith", "Edith", False)

    for answer in (Client().get(link), Client().post(link, CHOSEN | {"username": "thief"})):
        assert answer.status_code == 410
    assert not User.objects.filter(username="thief").exists()


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"again": "something else"}, "again"),
        ({"password": "short", "again": "short"}, "password"),
        ({"password": "edith12345", "again": "edith12345", "username": "edith12345"}, "password"),
        ({"username": "two words"}, "username"),
        ({"username": "root"}, "username"),
    ],
)
def test_what_is_wrong_stands_beside_its_field(administration, client, given, field):
    link = link_of(administration.post("/settings/users/", {"display_name": ""}))
    page = client.post(link, CHOSEN | given)
    assert page.status_code == 422
    assert f'id="id_{field}-error"' in page.content.decode()
    assert client.get(link).status_code == 200


def test_a_new_link_ends_the_one_before(administration, client):
    first = link_of(administration.post("/settings/users/", {"display_name": "Edith"}))
    invited = User.objects.get(first_name="Edith")
    second = link_of(administration.post(f"/settings/users/{invited.pk}/", {"change": "link"}))
    assert client.get(first).status_code == 410
    assert client.get(second).status_code == 200


def test_an_invitation_can_be_withdrawn_and_an_account_cannot(administration, client, user):
    link = link_of(administration.post("/settings/users/", {"display_name": "Edith"}))
    administration.post(f"/settings/users/{User.objects.get(first_name='Edith').pk}/", {"change": "withdraw"})
    assert client.get(link).status_code == 410
    assert administration.post(f"/settings/users/{user.pk}/", {"change": "withdraw"}).status_code == 404
    assert User.objects.filter(pk=user.pk).exists()


def test_a_new_password_ends_the_sessions_and_the_link(administration, api, user):
    link = link_of(administration.post(f"/settings/users/{user.pk}/", {"change": "link"}))
    other = Client()
    assert other.post(link, {"password": "a brand new phrase", "again": "a brand new phrase"}).status_code == 302
    assert other.get("/api/v1/me").json()["name"] == "ada"
    assert api.get("/api/v1/me").status_code == 401
    assert Client().get(link).status_code == 410


def test_links_end_by_time_forgery_sign_in_and_deactivation(user, admin_user, client, monkeypatch):
    token = accounts.link_path(user).split("/")[2]
    assert accounts.link_user(token) == user
    for forged in (token[:-1], signing.dumps({"user": user.pk, "state": ""}, salt=accounts.LINK_SALT), "x"):
        with pytest.raises(LinkSpent):
            accounts.link_user(forged)

    accounts.user_change(admin_user, user.pk, active=False)
    with pytest.raises(LinkSpent):
        accounts.link_user(token)
    accounts.user_change(admin_user, user.pk, active=True)
    assert accounts.link_user(token) == user

    monkeypatch.setattr(accounts, "LINK_AGE", timedelta(seconds=-1))
    with pytest.raises(LinkSpent):
        accounts.link_user(token)
    monkeypatch.undo()

    client.post("/login/", {"username": "ada", "password": PASSWORD})
    with pytest.raises(LinkSpent):
        accounts.link_user(token)


# Everybody's accounts.


def test_only_administrators_see_and_change_users(api, user, admin_user):
    assert api.get("/settings/users/").status_code == 403
    assert api.post("/settings/users/", {"display_name": "x"}).status_code == 403
    assert api.post(f"/settings/users/{admin_user.pk}/", {"change": "deactivate"}).status_code == 403
    for call in (
        lambda: accounts.people_list(user),
        lambda: accounts.user_invite(user),
        lambda: accounts.link_renew(user, admin_user.pk),
        lambda: accounts.invitation_withdraw(user, admin_user.pk),
        lambda: accounts.user_change(user, admin_user.pk, active=False),
    ):
        with pytest.raises(NotPermitted):
            call()


def test_the_last_administrator_stays(admin_user, user):
    with pytest.raises(ActionRefused, match="your own"):
        accounts.user_change(admin_user, admin_user.pk, active=False)
    with pytest.raises(ActionRefused, match="last administrator"):
        accounts.user_change(admin_user, admin_user.pk, administrator=False)

    accounts.user_change(admin_user, user.pk, administrator=True)
    accounts.user_change(admin_user, admin_user.pk, administrator=False)
    admin_user.refresh_from_db()
    assert not admin_user.is_staff
    with pytest.raises(NotPermitted):
        accounts.user_change(admin_user, user.pk, administrator=False)


def test_a_deactivated_administrator_does_not_count(admin_user, user):
    accounts.user_change(admin_user, user.pk, administrator=True)
    accounts.user_change(admin_user, user.pk, active=False)
    with pytest.raises(ActionRefused, match="last administrator"):
        accounts.user_change(admin_user, admin_user.pk, administrator=False)


def test_a_deactivated_account_is_out_at_once_and_may_come_back(administration, api, user):
    _, secret = token_create(user, "script")
    bearer = {"Authorization": f"Bearer {secret}"}
    assert Client().get("/api/v1/me", headers=bearer).status_code == 200
    administration.post(f"/settings/users/{user.pk}/", {"change": "deactivate"})
    assert api.get("/api/v1/me").status_code == 401
    assert Client().get("/api/v1/me", headers=bearer).status_code == 401
    assert "do not go together" in Client().post("/login/", {"username": "ada", "password": PASSWORD}).content.decode()
    administration.post(f"/settings/users/{user.pk}/", {"change": "activate"})
    assert Client().get("/api/v1/me", headers=bearer).status_code == 200


def test_an_open_invitation_is_neither_activated_nor_promoted(admin_user):
    invited = accounts.user_invite(admin_user, "Edith")
    for change in ({"active": True}, {"administrator": True}):
        with pytest.raises(ActionRefused, match="still open"):
            accounts.user_change(admin_user, invited.pk, **change)


def test_the_users_page_asks_the_database_as_often_for_many(administration, django_assert_num_queries, admin_user):
    administration.get("/settings/users/")
    with django_assert_num_queries(3):
        administration.get("/settings/users/")
    for n in range(5):
        accounts.user_invite(admin_user, str(n))
    with django_assert_num_queries(3):
        administration.get("/settings/users/")


# One's own account and tokens.


def test_the_own_name_and_theme(api, user):
    answer = api.post("/settings/account/", {"form": "profile", "display_name": "Countess", "theme": "dark"})
    assert answer.cookies["theme"].value == "dark"
    assert 'data-theme="dark"' in api.get("/settings/account/").content.decode()
    assert api.get("/api/v1/me").json()["display_name"] == "Countess"


def test_the_own_password_needs_the_old_one_and_keeps_this_session(api, user):
    new = {"form": "password", "password": "a brand new phrase", "again": "a brand new phrase"}
    assert api.post("/settings/account/", new | {"old": "wrong"}).status_code == 422
    elsewhere = Client()
    elsewhere.force_login(user)
    assert api.post("/settings/account/", new | {"old": PASSWORD}).status_code == 302
    assert api.get("/api/v1/me").status_code == 200
    assert elsewhere.get("/api/v1/me").status_code == 401


def test_a_token_is_shown_once_works_and_is_revoked(api, client_of_nobody, user):
    page = api.post("/settings/tokens/", {"name": "laptop", "scope": "read"}).content.decode()
    secret = re.search(r"fovea_[\w-]{20,}", page)[0]
    assert secret not in api.get("/settings/tokens/").content.decode()
    bearer = {"Authorization": f"Bearer {secret}"}
    assert client_of_nobody.get("/api/v1/me", headers=bearer).json()["name"] == "ada"
    api.post(f"/settings/tokens/{user.tokens.get().pk}/revoke")
    assert client_of_nobody.get("/api/v1/me", headers=bearer).status_code == 401


def test_a_token_of_another_cannot_be_revoked(api, other_user):
    token, _ = token_create(other_user, "hers")
    assert api.post(f"/settings/tokens/{token.pk}/revoke").status_code == 404
    assert other_user.tokens.exists()


@pytest.fixture
def client_of_nobody():
    return Client()
