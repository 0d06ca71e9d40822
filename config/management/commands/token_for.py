from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.contrib.auth.models import User
from django.core.management.base import BaseCommand, CommandError

from jobs.models import ApiToken
from jobs.services import token_create, token_revoke


class Command(BaseCommand):
    help = "Print a new bearer token for a user; tokens of the same user and name end. Nothing else is printed."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("username")
        parser.add_argument("--name", default="command line", help="what the token is called in the user's list")
        parser.add_argument("--scope", choices=["read", "write"], default="write")
        parser.add_argument(
            "--create",
            action="store_true",
            help="make the user where there is none: a service account that cannot sign in",
        )

    def handle(self, *, username: str, name: str, scope: Any, create: bool, **_options: Any) -> None:
        user = self._user(username, create=create)
        for earlier in ApiToken.objects.filter(owner=user, name=name):
            token_revoke(user, earlier.pk)
        _, secret = token_create(user, name, scope=scope)
        self.stdout.write(secret)

    def _user(self, username: str, *, create: bool) -> User:
        user = User.objects.filter(username=username).first()
        if user is None and create:
            user = User.objects.create_user(username)
        if user is None:
            raise CommandError(f"There is no user {username!r}. Add --create to make a service account of that name.")
        if not user.is_active:
            raise CommandError(f"{username!r} is deactivated, so its tokens would not work.")
        return user
