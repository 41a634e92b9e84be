"""Talking to providers: connections, limits of silence, and what went wrong in our words."""

from __future__ import annotations

from relay.upstream.attempts import Attempts
from relay.upstream.call import Call
from relay.upstream.circuit import Circuits, CircuitState, CircuitStatus
from relay.upstream.client import Upstream
from relay.upstream.counting import estimated_tokens, token_counter

__all__ = [
    "Attempts",
    "Call",
    "CircuitState",
    "CircuitStatus",
    "Circuits",
    "Upstream",
    "estimated_tokens",
    "token_counter",
]
