"""PROTOCOL 3.6 with real processes: a Redis that fills up refuses questions before it is
full; and a database without room keeps nothing from being read."""

from __future__ import annotations

import re
import resource
import sqlite3
from functools import partial
from pathlib import Path

import httpx
import pytest

from tests.ports import free_port
from tests.site import Proc, Site, ask, snapshot, until_status, until_text
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


DISK_BYTES = 16 * 1024
"""More than a log line needs, less than a question writes."""


def no_room(*processes: Proc) -> None:
    """As on a full disk: no file of theirs grows beyond this. Needs no disk of its own."""
    for process in processes:
        _, hard = resource.prlimit(process.popen.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(process.popen.pid, resource.RLIMIT_FSIZE, (DISK_BYTES, hard))


def room(*processes: Proc) -> None:
    for process in processes:
        _, hard = resource.prlimit(process.popen.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(process.popen.pid, resource.RLIMIT_FSIZE, (hard, hard))


async def test_a_database_that_is_full_refuses_questions_loses_nothing_and_is_told(
    tmp_path: Path,
) -> None:
    """PROTOCOL 6: an answer ends for whoever reads it; its record comes when there is room."""
    async with (
        Site(tmp_path, workers=1, env={"METRICS_PORT": str(free_port())}) as site,
        site.client() as client,
    ):
        rid = await ask(client, "say:100 every:20")
        await until_text(client, rid)
        processes = (*site.webs, *site.workers)
        no_room(*processes)

        async def refused() -> bool:
            reply = await client.post(
                "/api/responses", json={"model": "scripted", "input": "say:1"}
            )
            return reply.status_code == 503

        await wait_until(refused, "a question to be refused", timeout=30)
        async with client.stream("GET", f"/api/responses/{rid}/events") as events:
            read = (await events.aread()).decode()
        assert '"status":"completed"' in read
        assert len((await snapshot(client, rid))["text"].split()) == 100
        refusals = 'unbroken_refusals_total{kind="database_away"}'
        for process, series in (
            (site.webs[0], refusals),
            (site.workers[0], "unbroken_finalize_failures_total"),
        ):
            await wait_until(partial(counted, process, series), series, timeout=30)
        room(*processes)
        await until_text(client, rid, 100)
        taken = await wait_until(lambda: answered(client), "a question to be taken", timeout=30)
        await until_status(client, taken, "completed")
        await wait_until(lambda: recorded(site, rid), "the record to be written", timeout=60)


async def answered(client: httpx.AsyncClient) -> str | None:
    reply = await client.post("/api/responses", json={"model": "scripted", "input": "say:1"})
    return reply.json()["id"] if reply.status_code == 202 else None


async def counted(process: Proc, series: str) -> bool:
    shown = re.search(r"metrics are shown on port (\d+)", process.log)
    assert shown
    async with httpx.AsyncClient() as client:
        text = (await client.get(f"http://127.0.0.1:{shown[1]}/metrics")).text
    found = re.search(rf"(?m)^{re.escape(series)} (\S+)$", text)
    assert found, series
    return float(found[1]) > 0


def recorded(site: Site, response_id: str) -> bool:
    """In the row itself."""
    with sqlite3.connect(site.folder / "db.sqlite3") as rows:
        query = "SELECT status FROM chatapp_response WHERE id = ?"
        return bool(rows.execute(query, [response_id]).fetchone() == ("completed",))
