"""People and scripts: they ask, follow, drop, come back, vanish, read slowly, and stop."""

from __future__ import annotations

import asyncio
import random
import time
from contextlib import suppress

import httpx

from relay.states import TERMINAL
from tests.process.chaos.ledger import Asked, Ledger, draw
from tests.process.chaos.stream import Refused, Stream, opened
from tests.process.chaos.watch import Watch

AGAIN_S = (0.1, 0.6)
"""Between two tries of whatever did not work."""
MOODS = ("reads", "reads", "drops", "drops", "vanishes", "half-closes", "slow")
FINAL = {str(status) for status in TERMINAL}
TWICE = 0.25
"""Of the questions are sent twice at once, to two processes, with one Idempotency-Key."""


class Crowd:
    """Args:
    at_once: answers that are asked for and not yet read to their end.
    viewers: at most, of one answer.
    words: at most, of one answer.
    """

    def __init__(
        self,
        ledger: Ledger,
        urls: list[str],
        key: str,
        *,
        seed: int,
        at_once: int,
        viewers: int,
        words: int,
    ) -> None:
        self._ledger, self._urls, self._key = ledger, urls, key
        self._rng = random.Random(seed)
        self._at_once, self._viewers, self._words = at_once, viewers, words
        self._left_behind: list[Stream] = []
        self._client = httpx.AsyncClient(
            headers={"Authorization": f"Bearer {key}"}, timeout=httpx.Timeout(6)
        )

    async def run(self, until_s: float) -> None:
        """Ask until the event loop's clock says so; then read everything to its end."""
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.TaskGroup() as group:
                free = asyncio.Semaphore(self._at_once)
                number = 0
                while loop.time() < until_s:
                    await free.acquire()
                    number += 1
                    task = group.create_task(self._live(f"r{number}"))
                    task.add_done_callback(lambda _: free.release())
                    await asyncio.sleep(self._rng.uniform(0, 0.5))
        finally:
            for stream in self._left_behind:  # their timers would come after the loop's end
                stream.abort()
            await self._client.aclose()
            await asyncio.sleep(0)  # in which what was aborted is closed

    def _url(self) -> str:
        return self._rng.choice(self._urls)

    async def _again(self) -> None:
        await asyncio.sleep(self._rng.uniform(*AGAIN_S))

    async def _live(self, tag: str) -> None:
        """All of one answer, with everybody who cares about it."""
        asked = Asked(tag, draw(self._rng, self._words), _stop_after_s(self._rng))
        self._ledger.asked.append(asked)
        await asyncio.gather(*(self._ask(asked) for _ in range(1 + (self._rng.random() < TWICE))))
        watches = [Watch(f"{tag} viewer {n}") for n in range(self._rng.randint(1, self._viewers))]
        asked.watches = watches
        async with asyncio.TaskGroup() as group:
            for watch in watches:
                group.create_task(self._watch(asked, watch))
            if asked.stop_after_s is not None:
                group.create_task(self._stop(asked, asked.stop_after_s))

    async def _ask(self, asked: Asked) -> None:
        """As an app does that was not told what became of it: again, with the same key."""
        body = {"model": asked.script.model, "input": asked.script.ask(asked.tag)}
        headers = {"Idempotency-Key": asked.tag}
        asked.asked_unix_s = asked.asked_unix_s or time.time()
        while True:
            self._ledger.posts += 1
            with suppress(httpx.HTTPError):
                reply = await self._client.post(
                    f"{self._url()}/api/responses", json=body, headers=headers
                )
                if reply.status_code == 202:
                    asked.ids.add(reply.json()["id"])
                    asked.accepted_unix_s = asked.accepted_unix_s or time.time()
                    return
                self._ledger.refused += 1
                if reply.status_code != 503:
                    self._odd(asked, "a question", reply)
            await self._again()

    async def _stop(self, asked: Asked, after_s: float) -> None:
        await asyncio.sleep(after_s)
        while True:
            asked.stop_sent_unix_s = asked.stop_sent_unix_s or time.time()
            with suppress(httpx.HTTPError):
                url = f"{self._url()}/api/responses/{asked.rid}/cancel"
                reply = await self._client.post(url)
                if reply.status_code in (200, 202):
                    told = reply.json()
                    if reply.status_code == 200:
                        asked.stop_told.append((told["status"], told["reason"]))
                    return
                if reply.status_code != 503:
                    self._odd(asked, "a stop", reply)
            await self._again()

    def _odd(self, asked: Asked, what: str, reply: httpx.Response) -> None:
        sentence = f"{what} was answered with {reply.status_code}: {reply.text[:200]}"
        asked.faults.append(("odd replies", f"{asked.tag}: {sentence}"))

    async def _watch(self, asked: Asked, watch: Watch) -> None:
        """Until the end is known, over as many connections as it takes."""
        while not watch.done:
            mood = self._rng.choice(MOODS)
            headers = {"Authorization": f"Bearer {self._key}", "Accept": "text/event-stream"}
            query = f"?viewer={watch.name.replace(' ', '-')}"
            if watch.events or watch.snapshots:  # the record of a lost log ends at 0
                headers["Last-Event-ID"] = str(watch.cursor)
                query += f"&epoch={watch.epoch}" if watch.epoch is not None else ""
            path = f"/api/responses/{asked.rid}/events{query}"
            try:
                async with opened(self._url(), path, headers, slow=mood == "slow") as stream:
                    watch.connections += 1
                    await self._read(watch, stream, mood)
            except Refused as refused:
                if refused.status != 503:
                    sentence = f"{watch.name}: events were answered with {refused.status}"
                    watch.faults.append(("odd replies", sentence))
            except (OSError, TimeoutError):
                pass
            if not watch.done:
                await self._again()

    async def _read(self, watch: Watch, stream: Stream, mood: str) -> None:
        if stream.status == 204:
            # Dropped between a snapshot of an ended answer and its end, it knows both all the same.
            if watch.ended is None and watch.told_status not in FINAL:
                watch.faults.append(("stuck", f"{watch.name}: 204 before it had read the end"))
            watch.done = True
            return
        leaves_after = None if mood in ("reads", "slow") else self._rng.randint(1, 60)
        seen = 0
        # A slow one takes a few hundred bytes and looks away.
        async for frame in stream.frames(read_bytes=256 if mood == "slow" else 65536):
            watch.feed(frame)
            seen += 1
            if mood == "slow" and seen % 4 == 0:
                await asyncio.sleep(0.05)
            if seen == leaves_after:
                if mood == "half-closes":
                    stream.half_close()  # and it reads on: what still comes must still be right
                    continue
                if mood == "vanishes":
                    # Its socket stays, unread, while it is back on another one already.
                    self._leave_behind(stream)
                return
        # The server closed: the end, or a process that goes away.
        watch.done = watch.ended is not None

    def _leave_behind(self, stream: Stream) -> None:
        stream.kept = True
        self._left_behind.append(stream)
        asyncio.get_running_loop().call_later(self._rng.uniform(1, 8), stream.abort)


def _stop_after_s(rng: random.Random) -> float | None:
    """A third of the answers is stopped: at once, early, late, or after its end."""
    if rng.random() > 1 / 3:
        return None
    return rng.choice((0.0, rng.uniform(0, 0.3), rng.uniform(0.3, 4), rng.uniform(4, 12)))
