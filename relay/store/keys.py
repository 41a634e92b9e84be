"""The only module that knows the names of keys and channels (PROTOCOL 1).

log, meta and viewers of a response and the job stream of its shard share one hash tag, so that
every script that touches a job and its response stays in one slot of a cluster. The shard is part
of the response id and is never recomputed: RELAY_SHARDS may change while responses live. The three
names that an append needs are cached: taking an id apart three times a token was 5 % of its cost.
"""

from __future__ import annotations

import random
import re
import uuid
from functools import lru_cache
from typing import Final

GROUP: Final = "workers"
_ID: Final = re.compile(r"resp_(\d{1,4})_([0-9a-f]{32})")
_NAMESPACE: Final = uuid.UUID("6c1b6f0e-5f0a-4b62-9a34-0c7d8d1f5c11")


def new_response_id(shards: int = 1, *, user: str = "", idempotency_key: str = "") -> str:
    """A fresh id, `resp_<shard>_<32 hex>`; the same one for the same user and Idempotency-Key.

    With a key the id is UUIDv5(user, key), so that parallel posts meet in one response
    (PROTOCOL 11).
    """
    if idempotency_key:
        name = uuid.uuid5(_NAMESPACE, f"{user}\0{idempotency_key}")
        return f"resp_{name.int % shards}_{name.hex}"
    return f"resp_{random.randrange(shards)}_{uuid.uuid4().hex}"  # noqa: S311 - spreads, hides nothing


def is_response_id(text: str) -> bool:
    return _ID.fullmatch(text) is not None


def shard_of(response_id: str) -> int:
    """Raises ValueError when `response_id` is not one of ours."""
    match = _ID.fullmatch(response_id)
    if match is None:
        raise ValueError("not a response id")
    return int(match[1])


@lru_cache(maxsize=4096)
def log(response_id: str) -> str:
    return f"relay:{{{shard_of(response_id)}}}:{response_id}:log"


@lru_cache(maxsize=4096)
def meta(response_id: str) -> str:
    return f"relay:{{{shard_of(response_id)}}}:{response_id}:meta"


def viewers(response_id: str) -> str:
    return f"relay:{{{shard_of(response_id)}}}:{response_id}:viewers"


@lru_cache(maxsize=4096)
def channel(response_id: str) -> str:
    return f"relay:{{{shard_of(response_id)}}}:ch:{response_id}"


def jobs(shard: int) -> str:
    return f"relay:{{{shard}}}:jobs"


def run(shard: int) -> str:
    """Which server was seen last, and since when (PROTOCOL 10)."""
    return f"relay:{{{shard}}}:run"


def upstreams(worker: str) -> str:
    """What one worker reports of its upstreams."""
    return f"relay:{{upstreams}}:{worker}"


def reporters() -> str:
    """The names of workers that report."""
    return "relay:{upstreams}"


def stops(shard: int) -> str:
    """Every worker listens here: a worker need not receive its own events to hear of a stop."""
    return f"relay:{{{shard}}}:stops"


def running(user: str) -> str:
    """Reservations of a person: response ids by the time when each lapses (PROTOCOL 11)."""
    return f"relay:{{u{user}}}:running"


def held(user: str) -> str:
    """Output tokens set aside for those that run."""
    return f"relay:{{u{user}}}:held"


def used(user: str, day: str) -> str:
    """Output tokens of each response that was asked for on that day and has ended."""
    return f"relay:{{u{user}}}:used:{day}"
