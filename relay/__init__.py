"""Unbroken's relay: resumable, stoppable streams of language-model answers over Redis. No Django.

This is the only door: applications import from here, and from nowhere below.
"""

from __future__ import annotations

from relay.config import ModelConfig, RelayConfig
from relay.dialects import DIALECTS
from relay.errors import (
    ErrorKind,
    Fenced,
    LogGone,
    RecordUnavailable,
    RelayError,
    StoreRefused,
    StoreUnavailable,
    UpstreamError,
    ViewersFull,
)
from relay.events import (
    CONTENT,
    Created,
    Ended,
    Event,
    TextDelta,
    UsageCount,
    decode_event,
    encode_event,
)
from relay.fold import Snapshot, ToolCall, apply, ended_event, fold, text_sha256
from relay.follow import View, follow, snapshot_frame, wait_ended
from relay.generate import End, Outcome, Record, Records, Story, conclude, ended
from relay.generate.end import NOTHING_USED, WALL_CLOCK, WORKER_LOST, now_rfc3339, usage_at_end
from relay.hub import Hub, Visit
from relay.metrics import COUNTERS, OTHER, Counters, Histogram
from relay.request import IMAGE_PARTS, Disconnect, GenerationRequest
from relay.standing import read_standing
from relay.states import TERMINAL, FinishReason, Interruption, Shortfall, Status, StopReason
from relay.store import (
    Address,
    Cancelled,
    Grant,
    MemoryStore,
    Quotas,
    RedisStore,
    Refill,
    Reservation,
    Reserved,
    Store,
    Vitals,
    day_end,
    day_start,
    fold_log,
    is_response_id,
    new_response_id,
    quota_day,
    read_address,
    shard_of,
    written_around,
)
from relay.supervisor import Supervisor
from relay.upstream import (
    Circuits,
    CircuitState,
    CircuitStatus,
    Upstream,
    estimated_tokens,
    token_counter,
)
from relay.wire.partial_json import parse_partial
from relay.wire.sse import Frame, encode_frame

__all__ = [
    "CONTENT",
    "COUNTERS",
    "DIALECTS",
    "IMAGE_PARTS",
    "NOTHING_USED",
    "OTHER",
    "TERMINAL",
    "WALL_CLOCK",
    "WORKER_LOST",
    "Address",
    "Cancelled",
    "CircuitState",
    "CircuitStatus",
    "Circuits",
    "Counters",
    "Created",
    "Disconnect",
    "End",
    "Ended",
    "ErrorKind",
    "Event",
    "Fenced",
    "FinishReason",
    "Frame",
    "GenerationRequest",
    "Grant",
    "Histogram",
    "Hub",
    "Interruption",
    "LogGone",
    "MemoryStore",
    "ModelConfig",
    "Outcome",
    "Quotas",
    "Record",
    "RecordUnavailable",
    "Records",
    "RedisStore",
    "Refill",
    "RelayConfig",
    "RelayError",
    "Reservation",
    "Reserved",
    "Shortfall",
    "Snapshot",
    "Status",
    "StopReason",
    "Store",
    "StoreRefused",
    "StoreUnavailable",
    "Story",
    "Supervisor",
    "TextDelta",
    "ToolCall",
    "Upstream",
    "UpstreamError",
    "UsageCount",
    "View",
    "ViewersFull",
    "Visit",
    "Vitals",
    "apply",
    "conclude",
    "day_end",
    "day_start",
    "decode_event",
    "encode_event",
    "encode_frame",
    "ended",
    "ended_event",
    "estimated_tokens",
    "fold",
    "fold_log",
    "follow",
    "is_response_id",
    "new_response_id",
    "now_rfc3339",
    "parse_partial",
    "quota_day",
    "read_address",
    "read_standing",
    "shard_of",
    "snapshot_frame",
    "text_sha256",
    "token_counter",
    "usage_at_end",
    "wait_ended",
    "written_around",
]
