"""A model switched by an operator, as several processes meet it."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

import pytest

from tests.site import Site, ask, until_status
from tests.waiting import wait_until

if TYPE_CHECKING:
    from pathlib import Path

    import httpx

    from tests.site import Proc

pytestmark = pytest.mark.process


class WithFallback(Site):
    """One web process, and a second model that takes the first one's place."""

    def start_web(self) -> Proc:
        with (self.folder / "models.toml").open("a") as models:
            models.write(
                'fallback = ["second"]\n'
                "[models.second]\n"
                'dialect = "openai-chat"\n'
                f'base_url = "{self.scripted_url}/v1"\n'
                'upstream_model = "scripted-2"\n'
            )
        return super().start_web()


async def switch(site: Site, state: str) -> None:
    code = (
        "from chatapp.services import incidents; "
        f"incidents.switch('scripted', state={state!r}, text='Until noon.', by='root')"
    )
    await asyncio.to_thread(site.manage, "shell", "--no-imports", "-c", code)


async def test_a_switch_is_in_force_in_every_process(tmp_path: Path) -> None:
    async with (
        Site(tmp_path, webs=2, workers=1) as site,
        site.client(0) as here,
        site.client(1) as there,
    ):
        for client in (here, there):
            await until_status(here, await ask(client, "say:3"), "completed")

        async def answers(client: httpx.AsyncClient, status: int) -> bool:
            body = {"model": "scripted", "input": "say:3"}
            reply = await client.post("/api/responses", json=body)
            if reply.status_code == 503:
                assert "Until noon." in reply.json()["detail"]
            return reply.status_code == status

        for state, status in (("off", 503), ("on", 202)):
            await switch(site, state)
            for client in (here, there):
                await wait_until(partial(answers, client, status), f"{state} in force")


async def test_a_worker_asks_the_fallback_of_a_switched_model(tmp_path: Path) -> None:
    async with WithFallback(tmp_path, webs=1, workers=1) as site, site.client() as client:

        async def answered_by(model: str) -> bool:
            rid = await ask(client, "say:3")
            answer = await until_status(client, rid, "completed")
            assert answer["text"]
            return bool(answer["model"] == model)

        assert await answered_by("scripted")
        for state, model in (("fallback", "second"), ("on", "scripted")):
            await switch(site, state)
            await wait_until(partial(answered_by, model), f"{model} to answer")
