"""`manage.py create_api_key USER [--create-user]`: a new bearer key, alone on stdout."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import OperationalError, ProgrammingError

from chatapp.auth import make_key
from chatapp.models import User


class Command(BaseCommand):
    help = "Make an API key for a user and print it. Only its hash is kept: it is shown this once."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("user", help="user name")
        parser.add_argument("--name", default="", help="what the key is for")
        parser.add_argument(
            "--create-user",
            action="store_true",
            help="make the user if there is none; such a user has no password",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            user = self._user(options["user"], create=options["create_user"])
            self.stdout.write(make_key(user, options["name"]))
        except (OperationalError, ProgrammingError) as exc:
            raise CommandError(
                f"The database is not ready ({exc}). `make run` or `manage.py migrate` makes its "
                "tables; DATABASE_URL says which database is meant. No key was made."
            ) from exc

    def _user(self, username: str, *, create: bool) -> User:
        user = User.objects.filter(username=username).first()
        if user is None and create:
            user = User.objects.create_user(username)
            self.stderr.write(f"Made the user {username}.")
        if user is None:
            raise CommandError(f"There is no user {username!r}. Add --create-user to make one.")
        if not user.is_active:
            raise CommandError(f"The user {username!r} is not active; a key would be refused.")
        return user
