"""`manage.py erase_user NAME`: remove what one person said, and who they were."""

from __future__ import annotations

import asyncio
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from chatapp import runtime
from chatapp.models import User
from chatapp.services.erasing import erase_user
from chatapp.services.errors import Refused
from relay import RecordUnavailable, StoreUnavailable


class Command(BaseCommand):
    help = (
        "Erase a person: running answers are stopped; chats, pictures, texts, live logs, keys, "
        "sessions and mail addresses are removed. Figures stay under a pseudonym, and the audit "
        "trail keeps the user name. It cannot be undone; export_user comes before it."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("user", help="user name")
        parser.add_argument("--yes", action="store_true", help="do not ask")

    def handle(self, *args: Any, **options: Any) -> None:
        user = User.objects.filter(username=options["user"]).first()
        if user is None:
            raise CommandError(f"There is no user {options['user']!r}. Nothing was erased.")
        if not options["yes"]:
            self.stdout.write(
                f"Type the name of {user.username} to erase them for good: ", ending=""
            )
            self.stdout.flush()
            if input().strip() != user.username:
                raise CommandError("That is another name. Nothing was erased.")
        try:
            pseudonym = asyncio.run(_erase(user))
        except Refused as exc:
            raise CommandError(str(exc)) from exc
        except (StoreUnavailable, RecordUnavailable) as exc:
            raise CommandError(f"A part of the server is away ({exc}). {_left(user)}") from exc
        self.stdout.write(f"Erased. Their records and figures are those of {pseudonym} now.")


def _left(user: User) -> str:
    if User.objects.filter(pk=user.pk, is_active=True).exists():
        return "Nothing was erased."
    return "Nothing of theirs can begin any more, but not all is erased: run this again."


async def _erase(user: User) -> str:
    try:
        return await erase_user(user=user, by="")
    finally:
        await runtime.stop()
