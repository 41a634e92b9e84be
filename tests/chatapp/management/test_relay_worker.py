"""`manage.py relay_worker` takes jobs until it is told to stop. Real ones die in tests/process."""

from __future__ import annotations

import asyncio
import os
import signal
from io import StringIO
from typing import TYPE_CHECKING

import pytest
from django.core.management import get_commands

from chatapp import runtime
from chatapp.management.commands.relay_worker import Command
from tests.waiting import wait_until

if TYPE_CHECKING:
    from relay import MemoryStore


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_it_works_until_it_is_told_to_stop(
    transactional_db: None, store: MemoryStore, number: signal.Signals
) -> None:
    out = StringIO()
    working = asyncio.create_task(Command(stdout=out)._work())

    async def seen() -> int:
        return await store.workers(0, 5)

    await wait_until(seen, "the worker to ask for jobs")
    os.kill(os.getpid(), number)
    await asyncio.wait_for(working, 10)
    assert "Supervisor" in out.getvalue()
    assert "Draining" in out.getvalue()
    assert runtime.current().store is not store  # what it had is closed
    await runtime.stop()


def test_runserver_is_ours() -> None:
    # Not loaded here: Daphne would install Twisted's reactor in the process of all tests.
    assert get_commands()["runserver"] == "chatapp"
