"""The embedded engine as the stand-in for a GPU: a stop frees its slot, and a real model
answers."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.relay.reader import Reader
from tests.site import Site, ask, until_status, until_text
from tests.waiting import wait_until

pytestmark = [pytest.mark.process, pytest.mark.engine, pytest.mark.alone]

MID_TEXT_S = 1.0
LONG_PROMPT_S = 2.0


async def busy_slots(site: Site) -> int:
    async with httpx.AsyncClient() as client:
        slots: list[dict[str, Any]] = (await client.get(f"{site.engine_url}/slots")).json()
    return sum(bool(slot["is_processing"]) for slot in slots)


async def freed_within(site: Site, limit_s: float) -> float:
    """Seconds until no slot is busy. Fails when that takes longer than `limit_s`."""
    loop = asyncio.get_running_loop()
    start_s = loop.time()

    async def free() -> bool:
        return await busy_slots(site) == 0

    await wait_until(free, "every slot of the engine to be free", timeout=limit_s)
    return loop.time() - start_s


async def test_a_real_model_answers_and_a_stop_frees_its_slot(tmp_path: Path) -> None:
    async with Site(tmp_path, engine=True) as site, site.client() as client:
        rid = await ask(client, "Say hello.", model="smollm2", max_output_tokens=24)
        body = await until_status(client, rid, "completed", "incomplete")
        assert body["text"].strip()
        assert body["usage"]["output_tokens"] > 0

        rid = await ask(client, "Write a very long story about the sea.", model="smollm2")
        await until_text(client, rid, 40)
        assert await busy_slots(site) == 1
        reply = await client.post(f"/api/responses/{rid}/cancel")
        assert reply.json()["status"] == "cancelled"
        print(f"mid-text: slot free {await freed_within(site, MID_TEXT_S) * 1000:.0f} ms after")

        # About 1,800 tokens: more than ten batches of reading before the first word.
        prompt = " ".join(f"Fact {i}: the number {i} follows {i - 1}." for i in range(120))
        reader = Reader()
        rid = await ask(client, prompt, model="smollm2")
        async with client.stream("GET", f"/api/responses/{rid}/events") as stream:
            async for chunk in stream.aiter_raw():
                reader.feed(chunk)
                if b"reading_prompt" in chunk:
                    break
        reply = await client.post(f"/api/responses/{rid}/cancel")
        took_s = await freed_within(site, LONG_PROMPT_S)
        print(f"while reading the prompt: slot free {took_s * 1000:.0f} ms after the stop")
        body = await until_status(client, rid, "cancelled")
        assert body["text"] == ""
