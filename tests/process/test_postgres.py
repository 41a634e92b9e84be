"""Two web processes and two workers on PostgreSQL, which dies in mid-answer and comes back."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tests.postgres import PrivatePostgres
from tests.site import Site, ask, until_status, until_text
from tests.waiting import wait_until

pytestmark = pytest.mark.process

AT_ONCE = 10


@pytest.fixture
def postgres() -> Iterator[PrivatePostgres]:
    server = PrivatePostgres()
    try:
        yield server.start()
    finally:
        server.close()


async def test_answers_outlive_the_death_of_the_database(
    tmp_path: Path, postgres: PrivatePostgres
) -> None:
    env = {"DATABASE_URL": postgres.url}
    async with (
        Site(tmp_path, webs=2, workers=2, env=env) as site,
        site.client(0) as here,
        site.client(1) as there,
    ):
        short = await asyncio.gather(*(ask(here, "say:20 every:5") for _ in range(AT_ONCE)))
        for rid in short:
            body = await until_status(there, rid, "completed")
            assert len(body["text"].split()) == 20

        # One ends while the database is away: its log is closed, its record comes afterwards.
        ends, goes_on = await ask(here, "say:60 every:20"), await ask(there, "say:400 every:20")
        await until_text(here, ends, 20)
        await until_text(here, goes_on, 20)
        postgres.kill()
        away = await here.post("/api/responses", json={"model": "scripted", "input": "hi"})
        assert away.status_code == 503, away.text
        assert int(away.headers["retry-after"]) > 0

        async def short_one_is_over() -> bool:
            return await _running(site) == 1

        await wait_until(short_one_is_over, "the provider to have finished the short one")
        postgres.start()
        for rid, words in ((ends, 60), (goes_on, 400)):
            body = await until_status(there, rid, "completed", timeout=40)
            assert len(body["text"].split()) == words
        await until_recorded(postgres, AT_ONCE + 2)
        await until_status(here, await ask(there, "say:3"), "completed")


async def _running(site: Site) -> int:
    return sum(record["state"] == "open" for record in await site.stats())


async def until_recorded(postgres: PrivatePostgres, answers: int) -> None:
    """In the rows themselves: the API would also read a log that nobody has recorded."""

    async def recorded() -> bool:
        async with await psycopg.AsyncConnection.connect(postgres.url) as connection:
            rows = await connection.execute("SELECT status FROM chatapp_response")
            return [row[0] async for row in rows] == ["completed"] * answers

    await wait_until(recorded, "every answer to be recorded", timeout=40)


async def test_a_row_that_somebody_holds_keeps_no_other_from_its_end(
    tmp_path: Path, postgres: PrivatePostgres
) -> None:
    """PROTOCOL 9: without workers the sweep ends both, though it cannot write the older one."""
    env = {"DATABASE_URL": postgres.url, "RELAY_TOTAL_S": "3"}
    async with Site(tmp_path, webs=1, workers=1, env=env) as site, site.client() as client:
        held, free = [await ask(client, "hang") for _ in range(2)]
        site.workers.pop().kill()
        async with await psycopg.AsyncConnection.connect(postgres.url) as holder:
            await holder.execute("SELECT 1 FROM chatapp_response WHERE id = %s FOR UPDATE", [held])
            await until_ended(postgres, free)
            (web,) = site.webs
            await wait_until(
                lambda: "canceling statement due to lock" in web.log, "a wait to end", 30
            )
        await until_ended(postgres, held)


async def until_ended(postgres: PrivatePostgres, response_id: str) -> None:
    """In the row itself: failed if nobody had begun it, else interrupted."""

    async def written() -> bool:
        async with await psycopg.AsyncConnection.connect(postgres.url) as connection:
            query = "SELECT status FROM chatapp_response WHERE id = %s"
            row = await (await connection.execute(query, [response_id])).fetchone()
            return row is not None and row[0] in ("failed", "interrupted")

    await wait_until(written, f"{response_id} to have ended", timeout=60)
