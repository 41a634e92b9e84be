"""What a store tells of itself, for whoever looks after it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Vitals:
    """As of one look."""

    waiting: dict[int, int]
    """Jobs that nobody has taken, by shard."""
    held: dict[int, int]
    """Jobs in the hands of workers, by shard."""
    workers: dict[int, int]
    """Workers that asked for jobs of late, by shard."""
    memory_share: float
    """Of `maxmemory`, in the fullest server; 0 where there is no limit."""


@dataclass(frozen=True, slots=True)
class Pulse:
    """How one response is doing."""

    output_tokens: int
    """As its writer last counted them."""
    viewers: int
    """Present now; marks of who left or may be waited for are none."""
    claims: list[tuple[int, str]]
    """(epoch, worker) of its first claims, in order, as far as the store remembers."""
