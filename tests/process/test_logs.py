"""A day on which everything goes wrong once: no line of any log has a word of what was said."""

from __future__ import annotations

import json
import signal
from typing import TYPE_CHECKING, Any

import pytest

from tests.site import Site, ask, snapshot, until_status, until_text
from tests.waiting import wait_until

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.process

ASKED, TOLD, TAG = "wombatquestion", "wombatinstructions", "wombattag"
ENV = {"LOG_FORMAT": "json", "RELAY_READ_S": "1", "RELAY_UPSTREAM_RETRIES": "0"}


async def test_a_day_in_the_log_has_ids_and_no_words(tmp_path: Path) -> None:
    async with Site(tmp_path, workers=1, env=ENV) as site, site.client() as client:
        secret = {"instructions": TOLD}
        echoed = await ask(client, f"{ASKED} and more", **secret)
        assert ASKED in (await until_status(client, echoed, "completed"))["text"]
        failing = [
            await ask(client, f"{what} as:{TAG}", **secret)
            for what in ("stall:after:3", "cut:after:3", "reset:after:3", "fail:500", "fail:401")
        ]
        for rid in failing:
            assert (await until_status(client, rid, "failed"))["status"] == "failed"
        stopped = await ask(client, f"say:2000 every:20 as:{TAG}", **secret)
        assert TAG in (await until_text(client, stopped, 30))["text"]
        await client.post(f"/api/responses/{stopped}/cancel")
        await until_status(client, stopped, "cancelled")
        for body in ({"model": ASKED, "input": ASKED}, {"input": [ASKED]}, {"text": ASKED}):
            assert (await client.post("/api/responses", json=body)).status_code in (400, 422)
        odd = await client.post("/api/responses", content=f'{{"input": "{ASKED}"'.encode())
        assert odd.status_code in (400, 422)
        lost = await ask(client, f"say:2000 every:20 as:{TAG}", **secret)
        await until_text(client, lost, 30)
        frozen = site.workers[0]
        frozen.send(signal.SIGSTOP)
        site.start_worker()
        await until_status(client, lost, "interrupted", timeout=30)
        frozen.send(signal.SIGCONT)
        told = f'"response_id": "{lost}"'
        await wait_until(
            lambda: told in frozen.log, "the worker to say that it lost it", timeout=30
        )
        waiting = await ask(client, ASKED, **secret)
        site.valkey.kill()
        assert (await client.get("/readyz")).status_code == 503
        site.valkey.start()
        await wait_until(lambda: _ready(client), "the site to be whole again", timeout=60)
        assert (await snapshot(client, waiting))["id"] == waiting
        lines = [line for proc in (*site.webs, *site.workers) for line in _json(proc.log)]
    assert len(lines) >= 5
    assert [line["response_id"] for line in lines if "another worker" in line["event"]] == [lost]
    assert [line for line in lines if line["logger"] == "django.request" and line["request_id"]]
    for line in lines:
        assert {"at", "level", "logger", "event"} <= line.keys()
    everything = "\n".join(proc.log for proc in (*site.webs, *site.workers))
    for word in (ASKED, TOLD, TAG):
        assert word not in everything, [x for x in everything.splitlines() if word in x][:3]


async def _ready(client: Any) -> bool:
    ready: bool = (await client.get("/readyz")).status_code == 200
    return ready


def _json(log: str) -> list[dict[str, Any]]:
    """Uvicorn and our commands speak for themselves, and are read as well for words."""
    return [json.loads(line) for line in log.splitlines() if line.startswith("{")]
