"""A model switched by an operator, as two web processes meet it."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.site import Site, ask, until_status
from tests.waiting import wait_until

if TYPE_CHECKING:
    import httpx

pytestmark = pytest.mark.process


async def test_a_switch_is_in_force_in_every_process(tmp_path: Path) -> None:
    async with (
        Site(tmp_path, webs=2, workers=1) as site,
        site.client(0) as here,
        site.client(1) as there,
    ):
        for client in (here, there):
            await until_status(here, await ask(client, "say:3"), "completed")

        async def switch(state: str) -> None:
            code = (
                "from chatapp.services import incidents; "
                f"incidents.switch('scripted', state={state!r}, text='Until noon.', by='root')"
            )
            await asyncio.to_thread(site.manage, "shell", "--no-imports", "-c", code)

        async def answers(client: httpx.AsyncClient, status: int) -> bool:
            body = {"model": "scripted", "input": "say:3"}
            reply = await client.post("/api/responses", json=body)
            if reply.status_code == 503:
                assert "Until noon." in reply.json()["detail"]
            return reply.status_code == status

        for state, status in (("off", 503), ("on", 202)):
            await switch(state)
            for client in (here, there):
                await wait_until(partial(answers, client, status), f"{state} in force")
