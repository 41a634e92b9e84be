"""`manage.py audit_verify [--from N] [--head HEX] [--content]`: is the trail what was sealed?"""

from __future__ import annotations

import time
from argparse import ArgumentParser, ArgumentTypeError
from typing import TYPE_CHECKING, Any, Final

from django.core.management.base import BaseCommand, CommandError
from django.db import OperationalError, ProgrammingError

from chatapp.chain import LINK_BYTES
from chatapp.services.verifying import ContentCheck, NoSuchPosition, verification

if TYPE_CHECKING:
    from collections.abc import Iterable

    from chatapp.verification import Finding

MOST_SHOWN: Final = 1_000
"""Findings. Whoever has more needs a backup and not a list."""


class Command(BaseCommand):
    help = (
        "Check the hash chain over the audit trail; exit status 1 if anything is wrong. "
        "An end of the chain that was cut off is only seen with --head."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--from",
            dest="since",
            type=int,
            default=1,
            metavar="N",
            help="begin with the seal that holds position N",
        )
        parser.add_argument(
            "--head",
            type=_link,
            default=b"",
            metavar="HEX",
            help="a head that was noted earlier: is it still in the chain?",
        )
        parser.add_argument(
            "--content",
            action="store_true",
            help="also compare questions and answers with their digests in the trail",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            found = self._chain(options["since"], options["head"])
            if options["content"]:
                found += self._content()
        except NoSuchPosition as exc:
            raise CommandError(f"The chain has no position {options['since']} yet.") from exc
        except (OperationalError, ProgrammingError) as exc:
            raise CommandError(f"The database could not be read: {exc}. Nothing is known.") from exc
        if found:
            raise CommandError(
                f"{found} findings. Keep this output and a copy of the database as it is; a backup "
                "shows what stood there. RUNBOOK: audit trail."
            )

    def _chain(self, since: int, noted: bytes) -> int:
        began_s = time.monotonic()
        with verification(since=since, noted=noted) as check:
            found = self._tell(check.findings())
            took_s = time.monotonic() - began_s
            if check.noted_at is not None:
                self.stdout.write(f"The given head is in the chain, at position {check.noted_at}.")
            self.stdout.write(
                f"{check.verified} entries are as they were sealed "
                f"({check.verified / max(took_s, 1e-6):,.0f} a second); "
                f"{check.unsealed} wait for their seal."
            )
            self.stdout.write(f"Position {check.position}, head {check.link.hex()}")
        return found

    def _content(self) -> int:
        check = ContentCheck()
        found = self._tell(check.findings())
        self.stdout.write(
            f"{check.matched} responses match their digests; {check.erased} were erased; "
            f"{check.untold} are from before digests were kept. "
            f"{check.uncovered} questions of chats have no digest of their own (not covered)."
        )
        return found

    def _tell(self, findings: Iterable[Finding]) -> int:
        found = 0
        for finding in findings:
            found += 1
            if found <= MOST_SHOWN:
                self.stdout.write(finding.what)
        if found > MOST_SHOWN:
            self.stdout.write(f"… and {found - MOST_SHOWN} more.")
        return found


def _link(text: str) -> bytes:
    try:
        noted = bytes.fromhex(text)
    except ValueError:
        noted = b""
    if len(noted) != LINK_BYTES:
        raise ArgumentTypeError(f"a head is {2 * LINK_BYTES} hexadecimal digits")
    return noted
