"""What generate, hub and supervisor need of a store, and what it promises (PROTOCOL 1-9).

Times that leave this protocol as numbers are milliseconds of the store's own clock unless a name
says otherwise. Every call raises `StoreUnavailable` when the store cannot be reached; then nothing
is known about whether it happened, and every call may be repeated.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from relay.request import GenerationRequest
    from relay.store.quota import Quotas
    from relay.store.vitals import Pulse, Vitals


@dataclass(frozen=True, slots=True)
class Job:
    """One entry of a job stream, as handed to this worker."""

    shard: int
    entry_id: str
    response_id: str


@dataclass(slots=True)
class Lease:
    """The right to write one response, until `lease_until_ms` passes on the store's clock.

    The one mutable value here: every successful write brings a later `lease_until_ms` back, and the
    next write names it (PROTOCOL 2).
    """

    job: Job
    worker: str
    epoch: int
    lease_until_ms: int

    @property
    def response_id(self) -> str:
        return self.job.response_id


class Claimed(StrEnum):
    RUN = "run"
    """Ours, and `started` is in the log: open the upstream."""
    TAKE_OVER = "take_over"
    """Ours, to be closed only: `Claim` says what its end must be decided from."""
    CLOSED = "closed"
    """The log has ended; fold, finalize and ack may still be due."""
    BUSY = "busy"
    """Another writer's lease still runs, or may run: the server is a new one and waits for its
    writers (PROTOCOL 10). The job comes again later."""
    GONE = "gone"
    """No log. Ack the job; the sweep makes the log anew if its row is not final."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    outcome: Claimed
    lease: Lease | None = None
    """Set for RUN, TAKE_OVER and CLOSED (for CLOSED: epoch of the log, only `ack` uses it)."""
    seq: int = 0
    """Tail of the log, `started` included."""
    attempt: int = 0
    """Runs so far, this one included; > 0 with TAKE_OVER means `started` was logged before."""
    has_content: bool = False
    stop_reason: str | None = None
    abandoned: bool = False
    expired: bool = False
    """total_s from `created` has passed."""
    output_tokens: int = 0
    """What the last writer had counted when it last wrote."""
    events: Sequence[bytes] = ()
    """With RUN: the whole log, `started` included; no content is among it."""
    epochs: Sequence[int] = ()
    """One per event."""

    def with_log(self, events: Sequence[bytes], epochs: Sequence[int]) -> Claim:
        """For TAKE_OVER, whose log may be long: as it was read."""
        return replace(self, events=events, epochs=epochs)


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """What a writer has of its response: enough to write it again after a loss (PROTOCOL 10)."""

    lease: Lease
    request: GenerationRequest
    upstream_model: str
    attempt: int
    events: Sequence[bytes]
    """From seq 1 on."""
    epochs: Sequence[int]
    """Of the first events; all others are the lease's."""
    ended: bool
    """The last event is `ended`."""
    has_content: bool
    content_bytes: int
    output_tokens: int
    stop_reason: str | None


class Appended(StrEnum):
    OK = "ok"
    FENCED = "fenced"
    CLOSED = "closed"
    """The log has ended already: for a close that is success."""
    GAP = "gap"
    """The log is behind `first_seq`; `Reply.seq` is its tail: send again from there."""
    FULL = "full"
    """Content past max_log_bytes, or the store is out of memory: nothing was added."""
    LOST = "lost"
    """The store has forgotten this log, or the claim of it: its writer restores it."""


class Reply(Struct, frozen=True, gc=False):
    """Answer to append, close, renew and restore."""

    outcome: Appended
    seq: int = 0
    stop_reason: str | None = None
    abandoned: bool = False
    """Only renew judges it (PROTOCOL 7)."""


class Batch(Struct, frozen=True, gc=False):
    """Numbered events of one response, in order, each one line of JSON."""

    lease: Lease
    first_seq: int
    events: Sequence[bytes]
    has_content: bool
    output_tokens: int = 0
    """The writer's own count so far, for whoever must take over from it."""


class Cancelled(StrEnum):
    CLOSED = "closed"
    """It was queued: the log ended on the spot, and whoever called finalizes it."""
    FLAGGED = "flagged"
    """The flag is set and the writer was told."""
    ENDED = "ended"
    """It had ended before; nothing changed."""
    MISSING = "missing"
    """No log."""


class Tail(Struct, frozen=True, gc=False):
    epoch: int
    """Of the last entry."""
    seq: int
    ended: bool


class Page(Struct, frozen=True, gc=False):
    """A stretch of one log, with the tail as of the same moment."""

    first_seq: int
    events: list[bytes]
    epochs: list[int]
    """One per event."""
    tail: Tail
    valid: bool = True
    """False: the cursor asked for names no entry of this log (PROTOCOL 4); `events` is empty."""


class Published(Struct, frozen=True, gc=False):
    response_id: str
    epoch: int
    first_seq: int
    events: list[bytes]


@dataclass(frozen=True, slots=True)
class Stopped:
    response_id: str
    reason: str


@dataclass(frozen=True, slots=True)
class Gone:
    """The log was retired: the record is final and answers from now on (PROTOCOL 8)."""

    response_id: str


@dataclass(frozen=True, slots=True)
class Lost:
    """The subscription was broken and is made anew: messages may be missing, look at the logs."""


Message = Published | Stopped | Gone | Lost


class Subscription(Protocol):
    """One connection that receives what is published; owned by the hub of a process."""

    async def add(self, response_id: str) -> None:
        """Return once the store has confirmed: what is appended from now on is received."""

    async def remove(self, response_ids: Sequence[str]) -> None: ...

    def messages(self) -> AsyncIterator[Message]:
        """Every message, until the subscription is closed. Reconnects by itself, saying `Lost`."""

    async def aclose(self) -> None: ...


class Store(Protocol):
    @property
    def quotas(self) -> Quotas:
        """What people may have running; another slot than any response (PROTOCOL 11)."""

    async def ping(self) -> None:
        """Answer within a second or raise StoreUnavailable."""

    async def know_time(self) -> None:
        """Return once `now_s` is the store's time; at once if it is. Raises StoreUnavailable."""

    def now_s(self) -> float:
        """Unix seconds by the store's clock, as this process knows it (PROTOCOL 9.4)."""

    async def room(self) -> None:
        """Return, within a second, if one more response may be created now.

        Raises StoreRefused when the store takes nothing new or is full up to `max_store_share`;
        `quotas.reserve` asks the same.
        """

    async def create(
        self, request: GenerationRequest, *, upstream_model: str, again: bool = False
    ) -> bool:
        """Make log (event 1), meta, the creator's presence and the job in one step.

        With `again`, for a log that is missing, nobody in particular is waited for instead of the
        creator (PROTOCOL 7.6).

        False if they were there already: a repeat is harmless. Raises StoreRefused when the store
        takes nothing new: then nothing is there.
        """

    # -- jobs -----------------------------------------------------------------------------------
    async def take(self, shard: int, worker: str, count: int, block_s: float) -> list[Job]:
        """Up to `count` new jobs, waiting up to `block_s` for the first one."""

    async def reclaim(self, shard: int, worker: str, count: int, idle_s: float) -> list[Job]:
        """Jobs whose worker has not touched them for `idle_s`, now assigned to `worker`."""

    async def claim(self, job: Job, worker: str, *, at: str) -> Claim:
        """Raise the epoch and take the lease, or say why not. `at` is put into `started`.

        RUN only if the log holds no content, was not stopped, is not abandoned, has attempts left
        and time left.
        """

    async def renew(self, lease: Lease) -> Reply:
        """OK (or CLOSED, while the end is being recorded), FENCED or LOST. Keeps the job from
        going idle."""

    async def release(self, lease: Lease) -> bool:
        """Give a job without content back at once: another worker takes it without waiting.

        The caller has closed its own upstream. False if the lease was not ours any more.
        """

    async def ack(self, job: Job) -> bool:
        """Done with this job: if its log is closed or gone, drop it and start the retention.

        False if the log is open: then somebody must still close it.
        """

    # -- writing --------------------------------------------------------------------------------
    async def append(self, batches: Sequence[Batch]) -> list[Reply | Exception]:
        """Append many responses' batches in one round trip; one answer each, in order.

        Compares per event: present is skipped, next is added, a hole is GAP. An answer that is
        an exception (StoreUnavailable) leaves that batch's outcome unknown.
        """

    async def close(self, batch: Batch) -> Reply:
        """Append the last events, whose last is `ended`, and close the log, in one atomic step.

        `ended` and `usage` fit whatever max_log_bytes says.
        """

    async def restore(self, kept: Kept) -> Reply:
        """Make log, meta, presence and job again as their writer has them, in one atomic step.

        OK also when nothing was lost after all, with the tail that the log has; CLOSED if that has
        ended; FENCED if a later claim is known. `kept.lease.job` is a new one if the old was lost.
        """

    # -- stopping -------------------------------------------------------------------------------
    async def cancel(self, response_id: str, reason: str, *, ended: bytes) -> Cancelled:
        """Set the stop flag and wake the writer, or end a queued response on the spot.

        In the grace after a fail-over only the flag is set (PROTOCOL 10).
        `ended` is the terminal event as encoded with seq 0 and epoch 0; the store numbers it.
        """

    async def expire(self, response_id: str, *, queued: bytes, running: bytes) -> bool:
        """End a response whose time is over and that no live writer holds. True if this call did.

        The terminal events are as in `cancel`: one for a log without `started`, one for others.
        """

    async def retire(self, response_id: str) -> None:
        """Delete log, meta and viewers because the record is final; viewers are told `Gone`.

        Whoever still writes is fenced: what was retired is not restored.
        """

    # -- reading --------------------------------------------------------------------------------
    async def read(
        self, response_id: str, *, after: int, epoch: int | None = None, max_bytes: int = 262_144
    ) -> Page | None:
        """The events after `after`, at least one if there is one, at most about `max_bytes`.

        With `epoch` the cursor (epoch, after) must name an entry, without it `after` must not be
        past the tail; else `Page.valid` is False. None if the response has no log.
        """

    async def tails(self, response_ids: Sequence[str]) -> list[Tail | None]:
        """Tail of each log, in one round trip; None where there is none."""

    async def subscribe(self, shards: Sequence[int]) -> Subscription:
        """A subscription that also receives the stops of these shards."""

    # -- presence (PROTOCOL 7) ------------------------------------------------------------------
    async def attend(self, response_id: str, viewer: str) -> int:
        """This viewer is here, until two heartbeats and the long timer have passed.

        Where there is no log yet it is noted for two heartbeats, and counts from when there is.

        Returns how many viewers (not counting the creator's and left marks) are present.
        """

    async def beat(self, beats: Sequence[tuple[str, str, int]]) -> None:
        """(response id, viewer, highest seq handed to its socket) of viewers still there.

        Makes a presence of whoever has none, since the store may have lost it; but a late heartbeat
        does not revive who left.
        """

    async def leave(self, response_id: str, viewer: str) -> None:
        """This viewer went on purpose; the short timer starts when the last one has.

        An id that ends in "/" stands for every viewer whose id begins with it: viewers of one
        login are `<login>/<viewer>`.
        """

    async def abandoned(self, response_ids: Sequence[str]) -> list[bool]:
        """Whether every presence of a response lies in the past, for those with a policy.

        Of nobody for two heartbeats after a fail-over (PROTOCOL 10.7), nor by renew and claim.
        """

    async def delivered(self, response_id: str) -> int:
        """Highest seq known to have been handed to a socket."""

    async def counted(self, response_id: str) -> int:
        """Output tokens that the last writer had counted when it last wrote."""

    async def pulses(self, response_ids: Sequence[str]) -> list[Pulse | None]:
        """How each is doing, for people who look; None where there is no log."""

    async def workers(self, shard: int, within_s: float) -> int:
        """How many workers asked for jobs of this shard in the last `within_s` seconds."""

    async def vitals(self, shards: Sequence[int], within_s: float) -> Vitals:
        """How it stands; `within_s` as for `workers`. Raises StoreUnavailable."""

    async def notice(self, shard: int) -> None:
        """Note which server this is, so that a new one is known before anything is claimed."""

    # -- upstreams ------------------------------------------------------------------------------
    async def report_upstreams(self, worker: str, report: bytes, ttl_s: float) -> None:
        """How this worker finds the upstreams that it asks; forgotten after `ttl_s`."""

    async def upstreams(self) -> dict[str, bytes]:
        """The last report of each worker that is not forgotten."""

    async def aclose(self) -> None: ...
