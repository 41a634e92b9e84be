"""What is told of an answer besides its words: its reasoning, its tool calls, its figures.

The twin of static/chat/telling.js, with the sentences of words.json; `tests/fixtures/words/` holds
both to the same cases.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from chatapp.numerals import grouped, tenths
from chatapp.templatetags.words import end_of, table
from relay import TERMINAL, Snapshot, parse_partial

if TYPE_CHECKING:
    from relay import ToolCall

LEAST_MS = 100
"""Of writing: a speed over less than that says nothing."""


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call as far as it is known."""

    name: str
    state: str
    """What is to be said of it; empty: it is whole."""
    rows: list[tuple[str, str]]
    """Arguments by name, for display only; one without a name: what cannot be read, as it came."""
    broken: bool = False


def call_of(call: ToolCall, *, ended: bool) -> Call:
    words = table()["calls"]
    if call.arguments is not None:
        return Call(call.name, "", _rows(call.arguments))
    if call.error is not None:
        raw = [("", call.raw)] if call.raw else []
        return Call(call.name, words["invalid"].format(error=call.error), raw, broken=True)
    partial = parse_partial(call.raw)
    whole = partial.error is None and isinstance(partial.value, dict)
    rows = _rows(partial.value) if whole else [("", call.raw)] if call.raw else []
    return Call(call.name, words["cut" if ended else "open"], rows)


def _rows(arguments: dict[str, Any]) -> list[tuple[str, str]]:
    return [
        (name, value if isinstance(value, str) else _json(value))
        for name, value in arguments.items()
    ]


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def reasoning_of(snapshot: Snapshot, *, only_this: bool = True) -> str:
    """What stands over the reasoning. `only_this`: all of it is of the response with the times."""
    words = table()["reasoning"]
    if not snapshot.reasoning:
        return ""
    if snapshot.status not in TERMINAL and not _answers(snapshot):
        return str(words["now"])
    times = snapshot.timings
    lasted_ms = _between(times.first_token_at, times.first_text_at or times.ended_at)
    if lasted_ms is None or not only_this:
        return str(words["was"])
    return str(words["for"].format(time=_duration(lasted_ms)))


def _answers(snapshot: Snapshot) -> bool:
    return bool(snapshot.text or snapshot.refusal or snapshot.tool_calls)


def instead_of(snapshot: Snapshot, asked: str) -> str:
    """Who answers, if it is not who was asked."""
    if not asked or not snapshot.model or asked == snapshot.model:
        return ""
    return str(table()["instead"].format(asked=asked, model=snapshot.model))


def figures_of(snapshot: Snapshot, *, only_this: bool = True) -> list[tuple[str, str]]:
    """Of an answer that has ended, for whoever asks for them: a name and a value each.

    `only_this`: the response with these figures is all of the answer.
    """
    if snapshot.status not in TERMINAL:
        return []
    words, values = table()["figures"], _values(snapshot)
    part = {} if only_this else {"part": words["part"]["value"]}
    return [(words[name]["name"], value) for name, value in (part | values).items() if value]


def _values(snapshot: Snapshot) -> dict[str, str]:
    words, times, usage = table()["figures"], snapshot.timings, snapshot.usage
    upstream = snapshot.upstream_model
    named = upstream and upstream != snapshot.model
    model = words["model"]["as"].format(model=snapshot.model, upstream=upstream)
    first_ms = _between(times.created_at, times.first_token_at)
    whole_ms = _between(times.created_at, times.ended_at)
    return {
        "model": model if named else snapshot.model,
        "read": _tokens("read", usage.input_tokens, usage.cached_input_tokens) if usage else "",
        "written": _written(snapshot),
        "speed": _speed(snapshot),
        "first": ""
        if first_ms is None
        else words["first"]["value"].format(s=tenths(first_ms // 100)),
        "whole": ""
        if whole_ms is None
        else words["whole"]["value"].format(s=tenths(whole_ms // 100)),
        "end": _why(snapshot),
        "id": snapshot.id,
    }


def _tokens(which: str, count: int | None, part: int | None) -> str:
    if count is None:
        return ""
    words = table()["figures"][which]
    said = str(words["value"].format(n=grouped(count)))
    return said + (words["part"].format(n=grouped(part)) if part else "")


def _written(snapshot: Snapshot) -> str:
    usage = snapshot.usage
    if usage is None:
        return ""
    said = _tokens("written", usage.output_tokens, usage.reasoning_tokens)
    counted = said and usage.source == "counted"
    return said + (table()["figures"]["written"]["counted"] if counted else "")


def _speed(snapshot: Snapshot) -> str:
    times, usage = snapshot.timings, snapshot.usage
    written_ms = _between(times.first_token_at, times.ended_at)
    if usage is None or not usage.output_tokens or written_ms is None or written_ms < LEAST_MS:
        return ""
    speed = tenths(usage.output_tokens * 10_000 // written_ms)
    return str(table()["figures"]["speed"]["value"].format(n=speed))


def _why(snapshot: Snapshot) -> str:
    why = table()["figures"]["end"]
    if label := end_of(snapshot).label:
        return f"{label} ({snapshot.reason})" if snapshot.reason else label
    return str(why.get(snapshot.finish_reason or "", why["*"]))


def _between(earlier: str | None, later: str | None) -> int | None:
    """Milliseconds."""
    if earlier is None or later is None:
        return None
    return max(0, _ms(later) - _ms(earlier))


def _ms(time: str) -> int:
    at = datetime.fromisoformat(time)
    return int(at.timestamp()) * 1000 + at.microsecond // 1000


def _duration(ms: int) -> str:
    words, seconds = table()["time"], ms // 1000
    if seconds < 60:
        return str(words["s" if seconds else "moment"].format(s=seconds))
    return str(words["min"].format(min=grouped(seconds // 60), s=seconds % 60))
