"""Whoever holds the lease of a response: writes its one end, and puts back what the store lost.

A writer keeps every event from seq 1 until the ack (PROTOCOL 3.2). So a store that comes back
empty, or without its last seconds, is told again what it said (PROTOCOL 10), and a record can be
written though the log is gone at that moment (PROTOCOL 8).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from relay.errors import Fenced, LogGone, StoreUnavailable
from relay.events import NOTABLE, decode_event, encode_event
from relay.fold import Folder, text_sha256
from relay.generate.end import End, ended, rfc3339, usage_at_end
from relay.generate.writer import Writer
from relay.store import Appended, Claim, Kept, Lease, Reply, Store, read_log

if TYPE_CHECKING:
    from relay.events import Ended, Event
    from relay.fold import Snapshot
    from relay.generate.commit import Committer
    from relay.request import GenerationRequest

CLOSE_RETRY_S: Final = 0.5


class Holder:
    """Holds `claim`, of which `events` and `epochs` are the whole log."""

    def __init__(
        self,
        *,
        store: Store,
        committer: Committer,
        request: GenerationRequest,
        upstream_model: str,
        lease: Lease,
        claim: Claim,
    ) -> None:
        self.writer = Writer(committer, self, lease, claim)
        self._store = store
        self._request = request
        self._upstream_model = upstream_model
        self._attempt = claim.attempt
        self._epochs = claim.epochs
        self._fenced = False

    def stop(self, reason: str) -> None:
        """A person's wish: nothing to stop where only an end is left to be written."""

    def leave(self) -> None:
        """This worker is going away: an end that is being written still is."""

    def full(self) -> None:
        """The log takes no more content: nor has whoever only ends it any."""

    def shown(self) -> None:
        """Whoever only ends an answer shows nothing."""

    def fenced(self) -> None:
        """Somebody else owns the response now: write nothing more."""
        self._fenced = True
        self.writer.give_up()

    def kept(self) -> Kept:
        """All there is to restore, as of now."""
        writer = self.writer
        return Kept(
            lease=writer.lease,
            request=self._request,
            upstream_model=self._upstream_model,
            attempt=self._attempt,
            events=writer.events,
            epochs=self._epochs,
            ended=writer.ended,
            has_content=writer.sent_content,
            content_bytes=writer.content_bytes,
            output_tokens=writer.output_tokens,
            stop_reason=writer.stop_reason,
        )

    def folded(self, notable: list[Event] | None = None) -> Snapshot:
        """What all its events mean; those that a story is made of are added to `notable`."""
        folder = Folder()
        for n, data in enumerate(self.writer.events):
            epoch = self._epochs[n] if n < len(self._epochs) else self.writer.lease.epoch
            event = decode_event(data)
            folder.apply(event, epoch)
            if notable is not None and type(event) in NOTABLE:
                notable.append(event)
        return folder.snapshot()

    async def close(self, event: Ended) -> None:
        """Write the end, the first one given. Safe to repeat, also to put a lost end back.

        Repeats until the store answers. Raises Fenced when somebody else is the writer.
        """
        self.writer.end_with(encode_event(event, self.writer.next_seq))
        await self.close_again()

    async def close_again(self) -> None:
        """As `close`, for an end that was written before."""
        while True:
            if self._fenced:
                raise Fenced(self._request.response_id)
            try:
                reply = await self._close_or_restore()
            except StoreUnavailable:
                await asyncio.sleep(CLOSE_RETRY_S)
                continue
            if reply.outcome is Appended.FENCED:
                raise Fenced(self._request.response_id)
            self.writer.heard(reply)
            if reply.seq >= self.writer.next_seq:
                return

    async def _close_or_restore(self) -> Reply:
        reply = await self._store.close(self.writer.closing_batch())
        if reply.outcome is not Appended.LOST:
            return reply
        return await self._store.restore(self.kept())

    async def end(self, end: End, *, asked: bool) -> None:
        """Close a log that nobody writes: its text so far is what its end must hash."""
        so_far = self.folded()
        used = usage_at_end(end, so_far.usage, self.writer.output_tokens, asked=asked)
        await self.close(
            ended(
                end,
                epoch=self.writer.lease.epoch,
                text_sha256=text_sha256(so_far.text),
                usage=used,
                at=rfc3339(self._store.now_s()),
            )
        )


async def take_over(
    *,
    store: Store,
    committer: Committer,
    request: GenerationRequest,
    upstream_model: str,
    lease: Lease,
    claim: Claim,
) -> Holder:
    """The holder of a response that will only be ended: it reads first what it must keep.

    Raises LogGone when the log is not any more what was claimed; a later claim judges anew.
    """
    log = await read_log(store, lease.response_id)
    if log is None or len(log.events) < claim.seq:
        raise LogGone(lease.response_id)
    return Holder(
        store=store,
        committer=committer,
        request=request,
        upstream_model=upstream_model,
        lease=lease,
        claim=claim.with_log(log.events, log.epochs),
    )
