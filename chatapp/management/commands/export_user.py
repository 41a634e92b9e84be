"""`manage.py export_user NAME FILE`: everything that is kept of one person, as a zip file."""

from __future__ import annotations

import asyncio
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from chatapp.models import User
from chatapp.services.personal import export_user
from relay import RecordUnavailable


class Command(BaseCommand):
    help = "Write everything that is kept of a person into a zip file. Noted in the audit trail."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("user", help="user name")
        parser.add_argument("file", help="the zip file; it must not be there yet")

    def handle(self, *args: Any, **options: Any) -> None:
        user = User.objects.filter(username=options["user"]).first()
        if user is None:
            raise CommandError(f"There is no user {options['user']!r}. Nothing was written.")
        path = Path(options["file"])
        try:
            # One person's whole life here: for whoever asked, and nobody else on the machine.
            path.touch(mode=0o600, exist_ok=False)
            asyncio.run(_write(user, path))
        except RecordUnavailable as exc:
            path.unlink(missing_ok=True)
            raise CommandError(f"The database went away ({exc}). No file was left.") from exc
        except OSError as exc:
            raise CommandError(f"{path}: {exc.strerror}. Nothing was written.") from exc
        self.stdout.write(f"{path}: {path.stat().st_size} bytes")


async def _write(user: User, path: Path) -> None:
    with path.open("wb") as file:
        async for data in export_user(user=user, by=""):
            file.write(data)
