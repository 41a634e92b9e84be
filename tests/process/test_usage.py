"""A thousand answers that end in eight ways: each has a record with what was used, and our count is
the provider's (PROTOCOL 3.8, 8)."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from tests.site import Site, ask
from tests.waiting import wait_until

if TYPE_CHECKING:
    from pathlib import Path

    import httpx

pytestmark = [pytest.mark.process, pytest.mark.timeout(420)]

EACH = 125
ENV = {
    "RELAY_READ_S": "3",
    "RELAY_HEARTBEAT_S": "0.5",
    "RELAY_UPSTREAM_RETRIES": "0",
    "RELAY_LEASE_S": "4",
    "RELAY_RENEW_S": "1",
}
APART: float = 0.02
"""What ours and the provider's may differ by: what was on its way when something died."""
LONG = "say:2000 every:40"
ENDS_S = 90.0


@dataclass(frozen=True)
class Way:
    text: str
    ended: tuple[str, str]
    end: str = ""
    """What ends it, if it does not end by itself."""


WAYS = (
    Way("say:100", ("completed", "")),
    Way("fail:401", ("failed", "authentication")),
    Way("stall:after:100", ("failed", "stalled")),
    Way("cut:after:100", ("failed", "truncated")),
    Way("reset:after:100 every:10", ("failed", "connection")),
    Way(LONG, ("cancelled", "user"), "stop"),
    Way(LONG, ("cancelled", "abandoned"), "nobody"),
    Way(LONG, ("interrupted", "worker_lost"), "kill"),
)


@dataclass
class Row:
    ended: tuple[str, str]
    source: str
    output_tokens: int | None
    counted: int | None


def rows(site: Site) -> dict[str, Row]:
    query = (
        "SELECT id, status, reason, usage_source, output_tokens, counted_output_tokens "
        "FROM chatapp_response WHERE ended_at IS NOT NULL"
    )
    with closing(sqlite3.connect(site.folder / "db.sqlite3", timeout=30)) as database:
        return {
            pk: Row((status, reason), source, tokens, counted)
            for pk, status, reason, source, tokens, counted in database.execute(query)
        }


def model_of(number: int, n: int) -> str:
    """A circuit opens after five failures in a row: no four of these share one with a fifth."""
    return f"w{number}m{n // 4}"


class ManyModels(Site):
    async def _start_engine(self) -> None:
        """No engine: the scripted provider, under many names."""
        names = {model_of(number, n) for number in range(len(WAYS)) for n in range(EACH)}
        with self._models.open("a") as models:
            for name in sorted(names):
                models.write(
                    f'[models.{name}]\ndialect = "openai-chat"\n'
                    f'base_url = "{self.scripted_url}/v1"\nupstream_model = "{name}"\n'
                )


async def begin(client: httpx.AsyncClient, way: Way, number: int) -> dict[str, str]:
    """Response id by the text that the provider saw."""
    timers = {"cancel_after_s": 3, "leave_after_s": 1}
    policy: Any = timers if way.end == "nobody" else "continue"
    found: dict[str, str] = {}

    async def one(n: int) -> None:
        text = f"{way.text} as:w{number}r{n}"
        model = model_of(number, n)
        found[text] = await ask(client, text, model=model, on_disconnect=policy)

    for at in range(0, EACH, 25):
        await asyncio.gather(*(one(n) for n in range(at, at + 25)))
    return found


async def deltas(site: Site) -> dict[str, int]:
    """What the provider has sent for each text."""
    return {request["text"]: request["deltas"] for request in await site.stats()}


async def end(site: Site, client: httpx.AsyncClient, way: Way, asked: dict[str, str]) -> None:
    if way.end not in ("stop", "kill"):
        return

    async def said() -> bool:
        sent = await deltas(site)
        return min(sent.get(text, 0) for text in asked) >= 200

    await wait_until(said, "two hundred words of each", timeout=ENDS_S)
    if way.end == "kill":
        for worker in list(site.workers):
            worker.kill()
            site.workers.remove(worker)
            site.start_worker()
        return
    for rid in asked.values():
        await client.post(f"/api/responses/{rid}/cancel")


async def test_a_thousand_answers_leave_a_thousand_records(tmp_path: Path) -> None:
    apart: list[str] = []
    async with (
        ManyModels(tmp_path, workers=2, engine=True, env=ENV) as site,
        site.client() as client,
    ):
        for number, way in enumerate(WAYS):
            asked = await begin(client, way, number)
            await end(site, client, way, asked)

            def recorded(asked: dict[str, str] = asked) -> dict[str, Row] | None:
                found = rows(site)
                return found if set(asked.values()) <= found.keys() else None

            found = await wait_until(recorded, f"{way.ended} of all", timeout=ENDS_S)
            sent = await deltas(site)
            mine = [(found[rid], sent[text]) for text, rid in asked.items()]
            assert {row.ended for row, _ in mine} == {way.ended}
            assert all(row.source in {"provider", "counted"} for row, _ in mine)
            theirs = sum(count for _, count in mine)
            for column in ("output_tokens", "counted"):
                ours = [getattr(row, column) for row, _ in mine]
                assert None not in ours, way
                off = abs(sum(ours) - theirs) / max(1, theirs)
                apart.append(f"{'/'.join(way.ended)} {column}: {sum(ours)} of {theirs}, {off:.2%}")
                assert off <= APART, apart[-1]
        assert len(rows(site)) == EACH * len(WAYS) == 1000
    print("\n".join(apart))
