"""One Idempotency-Key from many connections and two processes: one response, one charge.

PROTOCOL 11, with real processes, and with a Redis that dies between the commit and the log.
"""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest
import redis.asyncio

from tests.site import Site, until_status
from tests.waiting import wait_until

pytestmark = pytest.mark.process

CONNECTIONS = 40
KEY = {"Idempotency-Key": "one-question"}
BODY = {"model": "scripted", "input": "say:3"}
OTHER = {"model": "scripted", "input": "say:4"}
LIMITS = {"RELAY_MAX_GENERATIONS_PER_USER": "1", "RELAY_MAX_OUTPUT_TOKENS_PER_DAY": "1000000"}


async def post(client: httpx.AsyncClient, body: dict[str, Any]) -> httpx.Response:
    return await client.post("/api/responses", json=body, headers=KEY)


async def storm(
    here: httpx.AsyncClient, there: httpx.AsyncClient, *bodies: dict[str, Any]
) -> list[tuple[dict[str, Any], httpx.Response]]:
    """Each connection posts one of the bodies, to one of the two processes."""
    sent = [bodies[i // 2 % len(bodies)] for i in range(CONNECTIONS)]
    replies = await asyncio.gather(
        *(post((here, there)[i % 2], body) for i, body in enumerate(sent))
    )
    return list(zip(sent, replies, strict=True))


def rows(site: Site) -> list[tuple[str, str, int | None]]:
    with closing(sqlite3.connect(site.folder / "db.sqlite3")) as db:
        return db.execute("SELECT id, status, output_tokens FROM chatapp_response").fetchall()


async def charges(store: redis.asyncio.Redis) -> list[dict[str, str]]:
    """Every person's days, as the store has them."""
    names = [name async for name in store.scan_iter("relay:{u*}:used:*")]
    return [{str(k): str(v) for k, v in (await store.hgetall(name)).items()} for name in names]


async def is_charged_once(site: Site, rid: str) -> None:
    """One row, one question to the provider, one charge, and no place taken any more."""
    async with redis.asyncio.Redis.from_url(site.valkey.url, decode_responses=True) as store:

        async def settled() -> bool:
            return any(rid in day for day in await charges(store))

        await wait_until(settled, f"{rid} to be settled")
        ((pk, status, tokens),) = rows(site)
        assert (pk, status) == (rid, "completed")
        assert tokens
        (day,) = await charges(store)
        assert (day[rid], day["total"]) == (str(tokens), str(tokens))
        assert [name async for name in store.scan_iter("relay:{u*}:running")] == []
    assert len(await site.stats()) == 1


async def test_many_connections_to_two_processes_are_one_response(tmp_path: Path) -> None:
    async with (
        Site(tmp_path, webs=2, workers=1, env=LIMITS) as site,
        site.client(0) as here,
        site.client(1) as there,
    ):
        answers = await storm(here, there, BODY)
        assert {reply.status_code for _, reply in answers} == {202}
        assert len({reply.content for _, reply in answers}) == 1, "the same body for all"
        rid = answers[0][1].json()["id"]
        await until_status(here, rid, "completed")
        later = await post(there, BODY)
        assert later.content == answers[0][1].content, "also to a repeat after the end"
        assert (await post(here, OTHER)).status_code == 422
        await is_charged_once(site, rid)
        print(f"{CONNECTIONS} posts to 2 processes: 1 response, 1 charge")


async def test_of_two_bodies_with_one_key_one_is_answered(tmp_path: Path) -> None:
    async with (
        Site(tmp_path, webs=2, workers=1, env=LIMITS) as site,
        site.client(0) as here,
        site.client(1) as there,
    ):
        answers = await storm(here, there, BODY, OTHER)
        taken = [(body, reply) for body, reply in answers if reply.status_code == 202]
        refused = [(body, reply) for body, reply in answers if reply.status_code == 422]
        assert len(taken) == len(refused) == CONNECTIONS // 2
        (content,) = {reply.content for _, reply in taken}
        assert len({body["input"] for body, _ in taken}) == 1
        assert not {body["input"] for body, _ in taken} & {body["input"] for body, _ in refused}
        rid = httpx.Response(202, content=content).json()["id"]
        await until_status(here, rid, "completed")
        await is_charged_once(site, rid)


@pytest.mark.parametrize("persist", [True, False], ids=["with its file", "empty"])
async def test_redis_killed_between_commit_and_log_is_made_good_by_the_sweep(
    tmp_path: Path, persist: bool
) -> None:
    """The database is held until every post has its place in the store; then the store dies."""
    async with (
        Site(tmp_path, webs=2, workers=1, persist=persist, env=LIMITS) as site,
        site.client(0) as here,
        site.client(1) as there,
    ):
        for client in (here, there):  # a key's first use is written, which would wait, too
            assert (await client.get("/api/chats")).status_code == 200
        with closing(sqlite3.connect(site.folder / "db.sqlite3", isolation_level=None)) as db:
            db.execute("BEGIN IMMEDIATE")
            posts = asyncio.create_task(storm(here, there, BODY))
            async with redis.asyncio.Redis.from_url(site.valkey.url) as store:

                async def reserved() -> bool:
                    return bool([name async for name in store.scan_iter("relay:{u*}:running")])

                await wait_until(reserved, "a reservation")
                assert await store.keys("relay:{0}:resp*") == [], "no log before the commit"
            site.valkey.kill()
            db.execute("ROLLBACK")
        answers = await posts
        accepted = {reply.content for _, reply in answers if reply.status_code == 202}
        assert len(accepted) == 1, "who had reserved is committed and accepted"
        # Others were not that far when the store went: nothing of theirs was written.
        assert {reply.status_code for _, reply in answers} <= {202, 503}
        rid = httpx.Response(202, content=accepted.pop()).json()["id"]
        assert [(pk, status) for pk, status, _ in rows(site)] == [(rid, "queued")]
        site.valkey.start()
        repeats = await storm(here, there, BODY)
        assert {reply.json()["id"] for _, reply in repeats if reply.status_code == 202} <= {rid}
        await until_status(here, rid, "completed", timeout=40)
        assert (await post(there, BODY)).json()["id"] == rid
        assert (await post(here, OTHER)).status_code == 422
        await is_charged_once(site, rid)
