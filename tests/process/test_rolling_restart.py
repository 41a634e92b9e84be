"""A deploy under load: every process is told to stop and replaced, one after another.

PROTOCOL 5, 9.3. Nobody's answer is lost, repeated or cut but those that are longer than the
workers' drain, and these say so.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import re
import signal
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from tests.process.front import Front
from tests.relay.reader import Reader
from tests.site import Site, ask, snapshot, until_status, until_text
from tests.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = [pytest.mark.process, pytest.mark.timeout(240)]

DRAIN_S = 4.0
WORDS, EVERY_MS = 30, 20
"""An answer of 0.6 s, well within the drain."""
LONG = "say:3000 every:20"
"""A minute: longer than all restarts together."""
SILENT = "slow-first:6000"
"""Nothing to show before the drain is over."""
STREAMERS, RESUMERS = 3, 5
PATIENCE_S = 30.0
MOVE_ON = b": this server is going away; resume with Last-Event-ID\n"


@dataclass
class Crowd:
    """People who ask, read to the end and ask again, through the front, as a good client does."""

    client: httpx.AsyncClient
    answers: int = 0
    resumed: int = 0
    told: int = 0
    """Connections that ended with the comment that asks to move on."""
    cut: list[str] = field(default_factory=list)
    """Connections that ended in the middle without a word."""
    refusals: list[int] = field(default_factory=list)
    over: bool = False
    _numbers: Any = field(default_factory=itertools.count)

    async def one(self, *, streams: bool) -> None:
        while not self.over:
            tag = f"q{next(self._numbers)}"
            await self._answer(tag, streams=streams)
            self.answers += 1

    async def _answer(self, tag: str, *, streams: bool) -> None:
        reader = Reader()
        question = {"model": "scripted", "input": f"say:{WORDS} every:{EVERY_MS} as:{tag}"}
        key = {"Idempotency-Key": tag}
        if streams:
            accept = {"Accept": "text/event-stream"}
            await self._read(reader, "POST", "/api/responses", json=question, headers=key | accept)
        reply = await self._patient(
            lambda: self.client.post("/api/responses", json=question, headers=key)
        )
        assert reply.status_code == 202, reply.text
        rid = reply.json()["id"]
        while reader.ended is None:
            headers = {"Last-Event-ID": str(reader.cursor)} if reader.cursor else {}
            self.resumed += bool(reader.cursor)
            query = f"?viewer={tag}" + (f"&epoch={reader.epoch}" if reader.epoch else "")
            await self._read(reader, "GET", f"/api/responses/{rid}/events{query}", headers=headers)
        assert reader.ended["status"] == "completed", reader.ended
        attempt = re.match(rf"{tag}\.(\d+)\.", reader.text)
        assert attempt is not None, reader.text
        reader.check_whole(" ".join(f"{tag}.{attempt[1]}.{n + 1}" for n in range(WORDS)))
        assert reader.snapshots == 0
        body = await self._patient(lambda: self.client.get(f"/api/responses/{rid}"))
        assert (body.json()["status"], body.json()["text"]) == ("completed", reader.text)

    async def _read(self, reader: Reader, method: str, path: str, **more: Any) -> None:
        """One connection, to its end or to wherever it breaks."""
        reader.decoder = type(reader.decoder)()
        said = b""
        try:
            async with self.client.stream(method, path, **more) as reply:
                if reply.status_code != 200:
                    await self._refused(reply)
                    return
                async for chunk in reply.aiter_raw():
                    said += chunk
                    reader.feed(chunk)
        except httpx.TransportError as error:
            self.cut.append(f"{method} {path} after event {reader.cursor}: {error!r}")
            return
        if reader.ended is None:
            if MOVE_ON in said:  # a page that was on its way may come after it
                self.told += 1
            else:
                self.cut.append(f"{method} {path} after event {reader.cursor}: {said[-80:]!r}")

    async def _refused(self, reply: httpx.Response) -> None:
        """Anything but "come back in a second" is a failure."""
        self.refusals.append(reply.status_code)
        await reply.aread()
        assert reply.status_code == 503, reply.text
        await asyncio.sleep(min(2, int(reply.headers["Retry-After"])))  # as the server asks

    async def _patient(self, send: Callable[[], Any]) -> httpx.Response:
        """Send until it is answered: every request here may be repeated."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                try:
                    reply: httpx.Response = await send()
                except httpx.TransportError as error:
                    self.cut.append(f"a request: {error!r}")
                    continue
                if reply.status_code < 500:
                    return reply
                await self._refused(reply)


async def replaced_worker(site: Site) -> None:
    """Stop the oldest worker, and start another when it has gone."""
    old = site.workers.pop(0)
    old.send(signal.SIGTERM)
    assert await asyncio.to_thread(old.wait) == 0, old.log[-2000:]
    assert "Traceback" not in old.log, old.log[-4000:]
    new = site.start_worker()
    await wait_until(
        lambda: "taking jobs" in new.log, "the new worker to take jobs", timeout=PATIENCE_S
    )


async def replaced_web(site: Site, front: Front) -> None:
    old, url = site.webs.pop(0), site.urls.pop(0)
    old.send(signal.SIGTERM)
    # uvicorn ends by the signal it was sent, once everything is shut down.
    assert await asyncio.to_thread(old.wait) == -signal.SIGTERM, old.log[-2000:]
    assert "Traceback" not in old.log, old.log[-4000:]
    assert url not in front.ready or url not in site.urls
    site.start_web()
    await wait_until(
        lambda: site.urls[-1] in front.ready, "the new web process to be ready", timeout=PATIENCE_S
    )


async def test_every_process_is_replaced_under_load_and_nobody_notices(tmp_path: Path) -> None:
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=0)
    env = {"RELAY_DRAIN_S": str(DRAIN_S), "RELAY_LEASE_S": "5"}
    async with (
        Site(tmp_path, webs=2, workers=2, env=env) as site,
        Front(site.urls) as front,
    ):
        await wait_until(
            lambda: len(front.ready) == 2, "both web processes to be ready", timeout=20
        )
        by_key = {"Authorization": f"Bearer {site.key}"}
        async with httpx.AsyncClient(
            base_url=front.url, headers=by_key, limits=limits, timeout=PATIENCE_S
        ) as client:
            crowd = Crowd(client)
            loads = [
                asyncio.create_task(crowd.one(streams=n < STREAMERS))
                for n in range(STREAMERS + RESUMERS)
            ]
            long = [await ask(client, f"{LONG} as:long{n}") for n in range(4)]
            silent = [await ask(client, f"{SILENT} as:silent{n}") for n in range(4)]
            for rid in long:
                await until_text(client, rid, 20)
            for _ in range(2):
                await replaced_worker(site)
            workers_done = crowd.answers
            for _ in range(2):
                await replaced_web(site, front)
            crowd.over = True
            for load in asyncio.as_completed(loads, timeout=60):
                await load

            for rid in long:
                body = await snapshot(client, rid)
                assert (body["status"], body["reason"]) == ("interrupted", "shutdown")
                assert body["text"]
            attempts = []
            for n, rid in enumerate(silent):
                body = await until_status(client, rid, "completed", timeout=40)
                attempts.append(body["attempt"])
                assert body["text"] == f"silent{n}.{body['attempt']}.1"
        assert max(attempts) > 1, "nothing was handed on"
        print(
            f"\n{crowd.answers} answers ({workers_done} while workers were replaced), "
            f"{crowd.resumed} resumptions, {crowd.told} told to move on, "
            f"{len(crowd.refusals)} refused for a second, silent ones ran {attempts} times; "
            f"{json.dumps(front.unready)} times not ready"
        )
        assert crowd.answers >= 20
        assert crowd.cut == []
        assert crowd.told > 0, "no viewer was open when its process was told to stop"
