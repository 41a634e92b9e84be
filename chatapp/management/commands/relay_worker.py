"""`manage.py relay_worker`: runs generations, in as many processes as you like. SIGTERM drains."""

from __future__ import annotations

import asyncio
import signal
from typing import Any

import uvloop
from django.core.management.base import BaseCommand

from chatapp import runtime, services
from chatapp.metrics import Listener


class Command(BaseCommand):
    help = "Run generations until SIGTERM or Ctrl-C; then finish, hand on or interrupt them."

    def handle(self, *args: Any, **options: Any) -> None:
        uvloop.run(self._work())

    async def _work(self) -> None:
        asked = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, asked.set)
        runtime.start(
            records=services.records(),
            make_sweep=services.Sweep,
            make_titles=services.Titles,
            supervise=True,
        )
        metrics = Listener()
        metrics.start()
        self.stdout.write(f"{runtime.current().supervisor!r}")
        await asked.wait()
        self.stdout.write("Draining; what does not finish in time is handed on or interrupted.")
        await runtime.stop()
        await metrics.aclose()
