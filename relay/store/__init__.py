"""Where logs live: one protocol (`Store`), two implementations (Redis and memory)."""

from __future__ import annotations

from relay.store.address import Address, read_address
from relay.store.folding import fold_log, read_log, written_around
from relay.store.keys import is_response_id, new_response_id, shard_of
from relay.store.memory import MemoryStore
from relay.store.protocol import (
    Appended,
    Batch,
    Cancelled,
    Claim,
    Claimed,
    Gone,
    Job,
    Kept,
    Lease,
    Lost,
    Message,
    Page,
    Published,
    Reply,
    Stopped,
    Store,
    Subscription,
    Tail,
)
from relay.store.quota import (
    Grant,
    Quotas,
    Refill,
    Reservation,
    Reserved,
    day_end,
    day_start,
    quota_day,
)
from relay.store.redis import RedisStore
from relay.store.vitals import Pulse, Vitals

__all__ = [
    "Address",
    "Appended",
    "Batch",
    "Cancelled",
    "Claim",
    "Claimed",
    "Gone",
    "Grant",
    "Job",
    "Kept",
    "Lease",
    "Lost",
    "MemoryStore",
    "Message",
    "Page",
    "Published",
    "Pulse",
    "Quotas",
    "RedisStore",
    "Refill",
    "Reply",
    "Reservation",
    "Reserved",
    "Stopped",
    "Store",
    "Subscription",
    "Tail",
    "Vitals",
    "day_end",
    "day_start",
    "fold_log",
    "is_response_id",
    "new_response_id",
    "quota_day",
    "read_address",
    "read_log",
    "shard_of",
    "written_around",
]
