"""`manage.py check_models [NAME …]`: whether models connect, stream, count, call tools and stop."""

from __future__ import annotations

import asyncio
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from chatapp import catalog, runtime
from chatapp.management.model_check import Finding, address, check
from relay import ModelConfig, Upstream

_MARKS = {True: "yes", False: "no", None: "-"}


class Command(BaseCommand):
    help = (
        "Ask each model of the models file a small question (real requests: they may cost money) "
        "and say what works. The exit status is 1 if anything does not."
    )
    requires_system_checks = []  # what is wrong with the file is said below, model by model

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("names", nargs="*", metavar="NAME", help="these models only")
        parser.add_argument(
            "--tools", action="store_true", help="try tools also where `supports` names none"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            declared = catalog.catalog()
        except catalog.CatalogError as exc:
            raise CommandError(str(exc)) from exc
        names = options["names"] or list(declared.models)
        if not names:
            raise CommandError("No models: RELAY_MODELS names no file, or one without models.")
        if unknown := [name for name in names if name not in declared.models]:
            known = ", ".join(declared.models)
            raise CommandError(f"No such model: {', '.join(unknown)}. Declared: {known}.")
        failed = asyncio.run(self._check(declared, names, tools=options["tools"]))
        if failed:
            raise CommandError(f"{len(failed)} of {len(names)} do not work: {', '.join(failed)}")
        self.stdout.write(self.style.SUCCESS(f"All {len(names)} work."))

    async def _check(
        self, declared: catalog.Catalog, names: list[str], *, tools: bool
    ) -> list[str]:
        """The names of those that do not work. One after the other: their times are compared."""
        failed = []
        upstream = Upstream(runtime.config())
        try:
            for name in names:
                model = declared.models[name]
                self._head(model)
                variable = declared.key_variables.get(name)
                works = True
                async for finding in check(upstream, model, key_variable=variable, tools=tools):
                    self._row(finding)
                    works &= finding.works is not False
                if not works:
                    failed.append(name)
                self.stdout.write("")
        finally:
            await upstream.aclose()
        return failed

    def _head(self, model: ModelConfig) -> None:
        self.stdout.write(self.style.MIGRATE_HEADING(model.name), ending="  ")
        self.stdout.write(f"{model.upstream_model} at {address(model)} ({model.dialect})")

    def _row(self, finding: Finding) -> None:
        mark = _MARKS[finding.works].ljust(5)
        if finding.works is not None:
            mark = self.style.SUCCESS(mark) if finding.works else self.style.ERROR(mark)
        self.stdout.write(f"  {finding.what:<10}{mark}{finding.words}")
        self.stdout.flush()  # a model that must be loaded first takes a while
