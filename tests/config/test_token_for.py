from __future__ import annotations

import io

import pytest
from django.core.management import CommandError, call_command

from jobs.models import ApiToken
from jobs.services import token_create, token_find

pytestmark = pytest.mark.django_db


def _token_for(*arguments):
    output = io.StringIO()
    call_command("token_for", *arguments, stdout=output)
    return output.getvalue().strip()


def test_the_token_works_for_that_user(user):
    found = token_find(_token_for(user.username, "--scope", "read"))

    assert found.owner == user
    assert found.scope == "read"


def test_a_second_one_of_the_same_name_ends_the_first_and_no_other(user, other_user):
    _, of_another_name = token_create(user, "laptop")
    _, of_another_user = token_create(other_user, "demo")
    first = _token_for(user.username, "--name", "demo")
    second = _token_for(user.username, "--name", "demo")

    assert token_find(first) is None
    assert all(token_find(secret) for secret in (second, of_another_name, of_another_user))


def test_a_service_account_is_made_when_asked_and_cannot_sign_in(client, django_user_model):
    token = token_find(_token_for("robot", "--create"))

    assert token.owner.username == "robot"
    assert not token.owner.has_usable_password()
    assert not token.owner.is_staff
    _token_for("robot", "--create")
    assert django_user_model.objects.count() == 1


def test_an_unknown_user_is_refused_with_the_way_out():
    with pytest.raises(CommandError, match="--create"):
        _token_for("nobody")


def test_a_deactivated_user_gets_none(user):
    user.is_active = False
    user.save()

    with pytest.raises(CommandError, match="deactivated"):
        _token_for(user.username)
    assert not ApiToken.objects.exists()
