"""PROTOCOL 3.6 with real processes: a Redis that fills up refuses questions before it is full."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.site import Site, ask, until_status, until_text
from tests.waiting import wait_until

pytestmark = pytest.mark.process

BALLAST_BYTES = 200_000_000
"""Beside it an answer is nothing: what is in use stays the share that a test wants."""


async def test_a_redis_that_fills_up_refuses_questions_and_lets_answers_end(
    tmp_path: Path,
) -> None:
    async with Site(tmp_path, workers=1) as site, site.client() as client:
        site.valkey.ask("SETRANGE", "ballast", str(BALLAST_BYTES), "x")
        rid = await ask(client, "say:100 every:20")
        await until_text(client, rid)
        used = int(site.valkey.ask("INFO", "memory")["used_memory"])
        site.valkey.ask("CONFIG", "SET", "maxmemory", str(round(used / 0.95)))

        async def refused() -> bool:
            reply = await client.post(
                "/api/responses", json={"model": "scripted", "input": "say:1"}
            )
            if reply.status_code == 202:  # the last look is not two seconds old
                return False
            assert reply.status_code == 503, reply.text
            assert reply.headers["Retry-After"] == "30"
            assert "nothing was saved" in reply.json()["detail"]
            return True

        await wait_until(refused, "a question to be refused", timeout=10)
        body = await until_status(client, rid, "completed", "incomplete", timeout=20)
        assert (body["status"], len(body["text"].split())) == ("completed", 100)

        site.valkey.ask("DEL", "ballast")

        async def taken() -> bool:
            reply = await client.post(
                "/api/responses", json={"model": "scripted", "input": "say:1"}
            )
            return reply.status_code == 202

        await wait_until(taken, "a question to be taken again", timeout=10)
