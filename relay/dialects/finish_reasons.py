"""Why a model stopped, in one vocabulary (corpus rule 5)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from relay.errors import ErrorKind
from relay.states import FinishReason

_F = FinishReason

_SYNONYMS: Final[Mapping[str, FinishReason]] = {
    "stop": _F.STOP,
    "eos": _F.STOP,
    "eos_token": _F.STOP,
    "end_turn": _F.STOP,
    "stop_sequence": _F.STOP,
    "length": _F.LENGTH,
    "max_tokens": _F.LENGTH,
    "max_output_tokens": _F.LENGTH,
    "model_length": _F.LENGTH,
    "model_context_window_exceeded": _F.LENGTH,
    "tool_calls": _F.TOOL_CALLS,
    "tool_use": _F.TOOL_CALLS,
    "function_call": _F.TOOL_CALLS,
    "content_filter": _F.CONTENT_FILTER,
    "safety": _F.CONTENT_FILTER,
    "refusal": _F.CONTENT_FILTER,
    "pause": _F.PAUSE,
    "pause_turn": _F.PAUSE,
}

_FAILURES: Final[Mapping[str, ErrorKind]] = {
    "error": ErrorKind.SERVER_ERROR,
    # The upstream gave the request up by itself: for the person who waits that is a failure.
    "abort": ErrorKind.SERVER_ERROR,
    "insufficient_system_resource": ErrorKind.OVERLOADED,
}


def finish_reason(word: object) -> FinishReason | ErrorKind | None:
    """Our word for a provider's. An ErrorKind where a failure is reported as a reason to finish.

    None for null, the empty string, and what is no string: nothing was reported.
    """
    if not isinstance(word, str) or not word:
        return None
    key = word.lower()
    return _FAILURES.get(key) or _SYNONYMS.get(key, _F.OTHER)


def with_calls(reason: FinishReason | None, has_calls: bool) -> FinishReason | None:
    """`stop` with a tool call is `tool_calls`, `tool_calls` without one is `stop`."""
    if reason is _F.STOP and has_calls:
        return _F.TOOL_CALLS
    if reason is _F.TOOL_CALLS and not has_calls:
        return _F.STOP
    return reason
