"""Whatever happens to answers, nothing stays in Redis: PROTOCOL 1, 8.3, 11.4, 12.5.

Every key has an end of its own, but for a list that is short and has reasons; what is left of
answers and workers is gone when these ends have come.
"""

from __future__ import annotations

import asyncio
import re
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import httpx
import pytest

from tests.site import Site, ask, until_status, until_text
from tests.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterable

pytestmark = pytest.mark.process

RETENTION_S, TOTAL_S, LEASE_S = 3, 300, 2
ENV = {
    "RELAY_RETENTION_S": str(RETENTION_S),
    "RELAY_TOTAL_S": str(TOTAL_S),
    "RELAY_LEASE_S": str(LEASE_S),
    "RELAY_HEARTBEAT_S": "0.5",
    "RELAY_UPSTREAM_RETRIES": "0",
    "RELAY_MAX_GENERATIONS_PER_USER": "6",
    "RELAY_MAX_OUTPUT_TOKENS_PER_DAY": "1000000",
    "RELAY_DRAIN_S": "0.5",
}
LONG = "say:3000 every:20"
DAY_S = 86_400

ENDLESS: Final = {
    "relay:{0}:jobs": "workers wait on it; its entries go with their answers",
    "relay:{0}:run": "which server was seen last, for the next one to be told apart (10.3)",
}
"""Keys without a TTL, and why each may be."""
ENDS: Final = {
    r"relay:\{0\}:resp_0_\w{32}:(log|meta|viewers)": TOTAL_S + DAY_S,
    r"relay:\{upstreams\}(:.+)?": 2 * LEASE_S,
    r"relay:\{u\d+\}:(running|held)": 8 * DAY_S,
    r"relay:\{u\d+\}:used:\d{4}-\d\d-\d\d": 3 * DAY_S,
    r":1:allauth:.+": 5 * 60,
}
"""All others, and the longest time in seconds that each may have left."""


async def wrong(site: Site) -> list[str]:
    """What is in Redis against the two lists above."""
    left_ms = {key: int(site.valkey.ask("PTTL", key)) for key in await keys(site)}
    found = []
    for key, ms in left_ms.items():
        if key in ENDLESS or ms == -2:  # gone meanwhile
            continue
        longest_s = next((s for name, s in ENDS.items() if re.fullmatch(name, key)), None)
        if longest_s is None:
            found.append(f"{key} is in neither list")
        elif ms == -1 or ms > longest_s * 1000:
            found.append(f"{key} has {ms} ms")
    return found


async def keys(site: Site) -> list[str]:
    return sorted(site.valkey.ask("KEYS", "*"))


def of_answers_and_workers(names: Iterable[str]) -> list[str]:
    return [key for key in names if ":resp_" in key or "{upstreams}" in key or ":held" in key]


async def sign_in_wrongly(site: Site) -> None:
    async with httpx.AsyncClient(base_url=site.urls[0]) as nobody:
        page = await nobody.get("/account/login/")
        token = re.search(r'name="csrfmiddlewaretoken" value="(\w+)"', page.text)
        assert token is not None
        form = {"login": "tester", "password": "wrong", "csrfmiddlewaretoken": token[1]}
        for _ in range(7):
            assert (await nobody.post("/account/login/", data=form)).status_code in (200, 429)


async def in_a_chat(client: httpx.AsyncClient) -> None:
    """One answer is written, one message waits and one is removed; then the chat is deleted."""
    made = await client.post("/api/chats", json={"model": "scripted", "double_text": "queue"})
    chat = made.json()["id"]
    ids = []
    for text in (LONG, "say:3", LONG):
        sent = await client.post(f"/api/chats/{chat}/messages", json={"text": text})
        assert sent.status_code == 202, sent.text
        ids.append(re.findall(r"resp_0_\w{32}", sent.text)[0])
    await until_text(client, ids[0], 20)
    for rid in (ids[2], ids[0]):
        assert (await client.post(f"/api/responses/{rid}/cancel")).status_code == 200
    await until_status(client, ids[1], "completed")
    assert (await client.delete(f"/api/chats/{chat}")).status_code == 204


async def followed(client: httpx.AsyncClient, rid: str, viewer: str) -> bytes:
    return (await client.get(f"/api/responses/{rid}/events?viewer={viewer}")).content


async def test_a_full_life_leaves_no_key_without_an_end(tmp_path: Path) -> None:
    async with Site(tmp_path, workers=1, env=ENV) as site, site.client() as client:

        async def end(text: str, *statuses: str, **more: Any) -> str:
            rid = await ask(client, text, **more)
            assert b"event: ended" in await followed(client, rid, "one")
            await until_status(client, rid, *statuses)
            return rid

        whole = await end("say:20 every:5", "completed")
        for text in ("fail:400", "cut:after:3"):
            await end(text, "failed")
        await in_a_chat(client)
        await sign_in_wrongly(site)

        stopped = await ask(client, LONG)
        await until_text(client, stopped, 20)
        assert await wrong(site) == [], "while an answer is being written"
        assert (await client.post(f"/api/responses/{stopped}/cancel")).status_code == 200

        # Whoever leaves, and whoever comes back too late.
        left = await ask(client, LONG, on_disconnect={"cancel_after_s": 0, "leave_after_s": 0})
        await client.get(f"/api/responses/{left}?viewer=two")
        assert (await client.post(f"/api/responses/{left}/leave")).status_code == 204
        await until_status(client, left, "cancelled")

        # One worker is killed, the next one drains: an answer is taken over, one is handed on.
        taken = await ask(client, LONG)
        await until_text(client, taken, 20)
        site.start_worker()
        site.workers.pop(0).kill()
        await until_status(client, taken, "interrupted", timeout=LEASE_S + 20)
        handed_on = await ask(client, "slow-first:2500")

        def begun() -> bool:
            return int(site.valkey.ask("XPENDING", "relay:{0}:jobs", "workers")["pending"]) > 0

        await wait_until(begun, "it to be run")
        draining = site.workers.pop(0)
        site.start_worker()
        draining.send(signal.SIGTERM)
        assert await asyncio.to_thread(draining.wait) == 0
        await until_status(client, handed_on, "completed", timeout=LEASE_S + 20)

        several = [await ask(client, LONG) for _ in range(6)]
        refused = await client.post("/api/responses", json={"model": "scripted", "input": "hi"})
        assert refused.status_code == 429
        assert await wrong(site) == [], "at the limit"
        for rid in several:
            await client.post(f"/api/responses/{rid}/cancel")
        for rid in several:
            await until_status(client, rid, "cancelled")

        for _ in range(6):  # the circuit opens
            await end("fail:500", "failed")
        assert any("{upstreams}:" in key for key in await keys(site)), "which is reported"

        def job_free() -> bool:
            return int(site.valkey.ask("XLEN", "relay:{0}:jobs")) == 0

        await wait_until(job_free, "every job to be acked", timeout=20)
        assert await wrong(site) == [], "at the end"
        assert b"event: snapshot" in await followed(client, whole, "late"), "its log has expired"

        (worker,) = site.workers
        worker.send(signal.SIGTERM)
        assert await asyncio.to_thread(worker.wait) == 0
        site.webs[0].kill()

        async def gone() -> bool:
            return of_answers_and_workers(await keys(site)) == []

        await wait_until(gone, "answers and workers to be forgotten", timeout=RETENTION_S + 30)
        assert await wrong(site) == []
        remain = [re.sub(r"\d+", "N", key) for key in await keys(site)]
        print(f"\nremain, until their time has come: {sorted(set(remain))}")
        assert any(":allauth:" in key for key in remain), "attempts to sign in were counted"
        assert any(":used:" in key for key in remain), "a day's tokens were counted"
        assert not any(":running" in key for key in remain), "nobody's place is taken"
