"""What workers report of their upstreams: a key each, which ends with its worker (PROTOCOL 12)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from redis.exceptions import ResponseError

from relay.errors import StoreUnavailable
from relay.store import keys

if TYPE_CHECKING:
    from relay.store.lane import Carrier


class Reports:
    """On the lane it is given: a report is small and rare."""

    def __init__(self, lane: Carrier) -> None:
        self._lane = lane

    async def put(self, worker: str, report: bytes, ttl_s: float) -> None:
        ttl_ms = max(1, round(ttl_s * 1000))
        try:
            told = self._lane.send(("SET", keys.upstreams(worker), report, "PX", ttl_ms))
            await self._lane.send(("SADD", keys.reporters(), worker))
            # As long as anybody reports, and no longer: the set has no other end.
            await self._lane.send(("PEXPIRE", keys.reporters(), 2 * ttl_ms))
            await told
        except ResponseError as error:  # out of memory: the page does without, answers go on
            raise StoreUnavailable(f"report: {error}") from error

    async def all(self) -> dict[str, bytes]:
        workers = sorted(await self._lane.send(("SMEMBERS", keys.reporters())))
        if not workers:
            return {}
        names = [worker.decode() for worker in workers]
        reports = await self._lane.send(("MGET", *(keys.upstreams(name) for name in names)))
        found = dict(zip(names, reports, strict=True))
        gone = [name for name, report in found.items() if report is None]
        if gone:
            await self._lane.send(("SREM", keys.reporters(), *gone))
        return {name: report for name, report in found.items() if report is not None}
