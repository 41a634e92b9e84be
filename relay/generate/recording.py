"""Between log and record (PROTOCOL 8): the record is asked first, and told last."""

from __future__ import annotations

import asyncio
import logging
import random
from typing import TYPE_CHECKING, Final

from relay.errors import Fenced, LogGone, RecordUnavailable
from relay.generate.outcome import Outcome, Record, Records, conclude
from relay.metrics import COUNTERS

if TYPE_CHECKING:
    from collections.abc import Callable

    from relay.generate.holder import Holder
    from relay.store import Lease, Store

logger = logging.getLogger(__name__)

RETRY_MAX_S: Final = 5.0


class Recorder:
    """Asks and tells the application; waits for a database that is away."""

    def __init__(self, store: Store, records: Records, worker: str) -> None:
        self._store = store
        self._records = records
        self._worker = worker

    async def load(self, response_id: str, lasts: Callable[[], bool]) -> Record:
        """The record's word. Raises Fenced when the lease no longer `lasts` before it comes."""
        failures = 0
        while True:
            try:
                return await self._records.load(response_id)
            except RecordUnavailable as error:
                failures += 1
                logger.warning("record of %s: %s", response_id, error)
                await pause(failures)
                if not lasts():
                    raise Fenced(response_id) from error

    async def record(self, lease: Lease, output_tokens: int, holder: Holder | None = None) -> None:
        """Fold, finalize, ack; finalize is repeated until the database takes it.

        Raises LogGone when the log of an end that others wrote is gone; StoreUnavailable.
        """
        rid = lease.response_id
        try:
            outcome: Outcome = await conclude(
                self._store,
                rid,
                counted_output_tokens=output_tokens,
                worker=self._worker,
                holder=holder,
            )
        except LogGone:
            await self._store.ack(lease.job)
            raise
        failures = 0
        while True:
            try:
                await self._records.finalize(outcome)
                break
            except RecordUnavailable as error:
                failures += 1
                COUNTERS.finalize_failures += 1
                logger.warning("finalize %s: %s", rid, error)
                await pause(failures)
        # A log that lost its end meanwhile is open again, and whoever has that end puts it back.
        while not await self._store.ack(lease.job):
            if holder is None:
                logger.warning("log of %s is open again: left to a later claim", rid)
                return
            await holder.close_again()


async def pause(failures: int) -> None:
    """Longer with each failure, and never the same for two."""
    longest_s = min(RETRY_MAX_S, 0.1 * 2 ** min(failures, 10))
    await asyncio.sleep(longest_s * random.uniform(0.5, 1.0))  # noqa: S311 - jitter
