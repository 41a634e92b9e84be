"""`manage.py messages`: bring the translations to what is in the sources."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from chatapp.management.catalogue import (
    TRANSLATED,
    faults,
    in_sources,
    is_compiled,
    missing,
    read,
    renew,
)


class Command(BaseCommand):
    help = "Finds what people read and brings chatapp/locale to it; prints what is not translated."
    requires_system_checks = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--check", action="store_true", help="write nothing; fail on wrong or stale files"
        )

    def handle(self, *args: Any, check: bool, **options: Any) -> None:
        sources, wrong = in_sources(), []
        for language in TRANSLATED:
            catalog = read(language) if check else renew(language, sources)
            lacking = missing(catalog, sources)
            self.stdout.write(f"{language}: {len(lacking)} of {len(sources)} not translated")
            for text in [] if check else lacking:
                self.stdout.write(f"  {text}")
            wrong += [f"{language}: {fault}" for fault in faults(catalog)]
            if not is_compiled(language):
                wrong.append(f"{language}: what is compiled is stale: run `make messages`")
        if wrong:
            raise CommandError("\n".join(wrong))
