"""Running one generation: a stop cancels the reader of the upstream, never the writer of the log.

The reader task copies events from the upstream to the writer. Whoever wants the generation to end
decides first (`stop`, `interrupt`, the wall clock …) and then cancels the reader; leaving the
upstream's context closes its connection, and only after that is the end written. So `cancelled` in
the log means that nobody generates any more (law 7), and the first decision is the one recorded
(law 3).
"""

from __future__ import annotations

import asyncio
import logging
import time
from datetime import datetime
from typing import TYPE_CHECKING, Final, Protocol

from relay.errors import Fenced, UpstreamError
from relay.generate.end import (
    CRASHED,
    LOG_LIMIT,
    SHUTDOWN,
    WALL_CLOCK,
    End,
    ended,
    rfc3339,
    usage_at_end,
)
from relay.generate.holder import Holder
from relay.metrics import COUNTERS, Gaps
from relay.states import Status

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractAsyncContextManager

    from relay.config import ModelConfig, RelayConfig
    from relay.events import Ended
    from relay.generate.commit import Committer
    from relay.request import GenerationRequest
    from relay.store import Claim, Lease, Store
    from relay.upstream.attempts import Call

logger = logging.getLogger(__name__)

OF_UPSTREAM: Final = frozenset({Status.COMPLETED, Status.INCOMPLETE, Status.FAILED})
"""Ends which say that the log holds all there was. A stop and a shutdown do not."""


class Upstream(Protocol):
    def open(
        self, request: GenerationRequest, models: Sequence[ModelConfig]
    ) -> AbstractAsyncContextManager[Call]:
        """Ask the first of `models`, or its fallbacks, the others.

        Leaving the context closes the connection, at the latest one second later.
        """


class Generation(Holder):
    """One run of one response by the holder of its lease."""

    def __init__(
        self,
        *,
        store: Store,
        committer: Committer,
        upstream: Upstream,
        config: RelayConfig,
        request: GenerationRequest,
        models: Sequence[ModelConfig],
        lease: Lease,
        claim: Claim,
    ) -> None:
        super().__init__(
            store=store,
            committer=committer,
            request=request,
            upstream_model=models[0].upstream_model,
            lease=lease,
            claim=claim,
        )
        self._upstream = upstream
        self._models = models
        self._total_s = models[0].total_s or config.total_s
        self._reader: asyncio.Task[End] | None = None
        self._decided: End | None = None
        self._released = False
        self._figures = COUNTERS.model(models[0].name)
        self.writer.gaps = Gaps(self._figures.inter_token)

    def __repr__(self) -> str:
        return f"<Generation {self._request.response_id} epoch {self.writer.lease.epoch}>"

    # -- wishes; each may come at any time, the first one counts ----------------------------------
    def stop(self, reason: str) -> None:
        """A person's stop, or abandonment: ends as `cancelled` once the upstream is closed."""
        self._decide(End.cancelled(reason))

    def interrupt(self) -> None:
        """This worker is going away."""
        self._decide(SHUTDOWN)

    def leave(self) -> None:
        """A drain: what has content is interrupted, what has none runs elsewhere."""
        if self.writer.has_content:
            self.interrupt()
        else:
            self.release()

    def release(self) -> None:
        """This worker is going away and no content is in the log: abort, write no end."""
        self._released = True
        self._abort()

    def fenced(self) -> None:
        """Somebody else owns the response now: abort and write nothing more."""
        super().fenced()
        self._abort()

    def shown(self) -> None:
        self._figures.first_token.observe(self._age_s())

    def full(self) -> None:
        """Text was dropped: an end that the upstream has given meanwhile is not that of the log."""
        if self._decided is not None and self._decided.status in OF_UPSTREAM:
            self._decided = None
        self._decide(LOG_LIMIT)

    def _decide(self, end: End) -> None:
        if self._decided is None:
            self._decided = end
        self._abort()

    def _abort(self) -> None:
        if self._reader is not None and not self._reader.done():
            self._reader.cancel()

    # -- the run ----------------------------------------------------------------------------------
    async def run(self) -> bool:
        """Generate and write the one end. False: released without one.

        Raises Fenced, having closed the upstream and written nothing more.
        """
        if self._decided is None and not self._fenced and not self._released:
            begun_s = time.monotonic()
            await self._read()
            COUNTERS.stream_s += time.monotonic() - begun_s
        self.writer.refuse()
        await self.writer.drained()
        if self._fenced:
            raise Fenced(self._request.response_id)
        if self._decided is None:
            if await self._store.release(self.writer.lease):
                return False
            self._decided = SHUTDOWN  # a token came in at the last moment, or a stop did
        await self.close(self._ended(self._decided))
        return True

    def _ended(self, end: End) -> Ended:
        writer = self.writer
        now_s = self._store.now_s()

        def at(moment_s: float | None) -> str | None:
            return rfc3339(now_s - (time.monotonic() - moment_s)) if moment_s else None

        return ended(
            end,
            epoch=writer.lease.epoch,
            text_sha256=writer.text_sha256,
            usage=usage_at_end(end, writer.usage, writer.output_tokens),
            first_token_at=at(writer.first_token_s),
            first_text_at=at(writer.first_text_s),
            at=rfc3339(now_s),
        )

    async def _read(self) -> None:
        self._reader = asyncio.get_running_loop().create_task(
            self._copy(), name=f"relay copy {self._request.response_id}"
        )
        try:
            done, _ = await asyncio.wait([self._reader], timeout=self._left_s())
            if not done:
                self._decide(WALL_CLOCK)
                await asyncio.wait([self._reader])
        except asyncio.CancelledError:
            self._abort()  # it is a task of its own: it would read on, and be paid for, for nobody
            raise
        if self._decided is None and not self._reader.cancelled():
            self._decided = self._outcome_of(self._reader)

    def _age_s(self) -> float:
        created = datetime.fromisoformat(self._request.created_at)
        # By the store's clock, which also gave `created`: a worker whose clock is wrong would cut
        # an answer short, or never end it.
        return self._store.now_s() - created.timestamp()

    def _left_s(self) -> float:
        return max(0.0, self._total_s - self._age_s())

    async def _copy(self) -> End:
        async with self._upstream.open(self._request, self._models) as call:
            self.writer.count_ids_of(call)
            try:
                async for events in call:
                    self.writer.add(events)
                    if self.writer.behind:
                        await self.writer.drained()
            except asyncio.CancelledError:
                self.writer.add(call.abandon())
                raise
        return End.finished(call.finish.finish_reason if call.finish else None)

    def _outcome_of(self, reader: asyncio.Task[End]) -> End:
        error = reader.exception()
        if error is None:
            return reader.result()
        if isinstance(error, UpstreamError):
            return End.of_upstream_error(error)
        logger.error("generation %s crashed", self._request.response_id, exc_info=error)
        return CRASHED
