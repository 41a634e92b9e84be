"""What meta is told of a request: its limits and its policy, as the scripts take them."""

from __future__ import annotations

from datetime import datetime
from itertools import groupby
from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    from relay.request import GenerationRequest
    from relay.store.protocol import Kept

LONGEST_S: Final = 366 * 86_400.0
"""A timer for longer is never; Lua would print its milliseconds as 1e+14."""


def timer_ms(seconds: float | None) -> int:
    return -1 if seconds is None else round(min(seconds, LONGEST_S) * 1000)


def created_ms(request: GenerationRequest) -> int:
    return round(datetime.fromisoformat(request.created_at).timestamp() * 1000)


def kept_args(kept: Kept, total_s: float) -> list[bytes | str | int]:
    """ARGV 11 and on of `restore`."""
    policy = kept.request.on_disconnect
    born_ms = created_ms(kept.request)
    epochs = [*kept.epochs, *[kept.lease.epoch] * (len(kept.events) - len(kept.epochs))]
    runs = [f"{epoch} {len(list(run))}" for epoch, run in groupby(epochs)]
    return [
        msgspec.json.encode(kept.upstream_model),
        born_ms,
        born_ms + round(total_s * 1000),
        timer_ms(policy.cancel_after_s),
        timer_ms(policy.leave_after_s),
        int(kept.ended),
        kept.stop_reason or "",
        kept.attempt,
        int(kept.has_content),
        kept.content_bytes,
        kept.output_tokens,
        " ".join(runs),
        *kept.events,
    ]
