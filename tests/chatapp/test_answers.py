"""What is told of an answer besides its words, the same from the server and from the scripts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from chatapp.templatetags import answers, words
from relay import TERMINAL, Snapshot, Status

FIXTURE = Path(__file__).resolve().parent.parent / "fixtures" / "words" / "tellings.json"
TIMES = {
    "created_at": "2026-03-01T12:00:00.000999Z",
    "started_at": "2026-03-01T12:00:00.500Z",
    "first_token_at": "2026-03-01T12:00:01.250Z",
    "first_text_at": "2026-03-01T12:01:14.249Z",
    "ended_at": "2026-03-01T12:20:40.000Z",
}
USAGE = {"input_tokens": 1_234_567, "output_tokens": 4321, "cached_input_tokens": 1000}
CALL = {"index": 0, "call_id": "c", "name": "look_up"}
CALLS: list[dict[str, Any]] = [
    {},
    {"raw": '{"city": "Ber'},
    {"raw": '{"city": "Bern", "days": [1, 2.5, {"x": nu'},
    {"raw": "[1, 2"},
    {"raw": '{"a" 1'},
    {"arguments": {}},
    {"raw": "ignored", "arguments": {"city": "Zürich\n“2”", "days": 3, "deep": {"on": True}}},
    {"raw": '{"a": {', "error": "it ends too soon {name}"},
    {"error": "nothing"},
]
DONE: dict[str, Any] = {
    "status": "completed",
    "id": "0-r1",
    "model": "fast",
    "finish_reason": "stop",
}

SNAPSHOTS: list[dict[str, Any]] = [
    {},
    {"status": "in_progress"},
    {"status": "in_progress", "reasoning": "hm"},
    {"status": "in_progress", "reasoning": "hm", "text": "4"},
    {"status": "in_progress", "refusal": "No."},
    {"status": "in_progress", "reasoning": "hm", "notice": {"code": "c", "message": "Retrying."}},
    DONE | {"text": "42"},
    DONE | {"text": "42", "reasoning": "hm", "timings": TIMES, "usage": USAGE},
    DONE | {"text": "4", "upstream_model": "fast-1", "usage": USAGE | {"reasoning_tokens": 9}},
    DONE | {"text": "4", "usage": {"output_tokens": 12, "source": "counted"}, "timings": TIMES},
    DONE | {"finish_reason": None, "text": "4", "usage": {}},
    DONE | {"finish_reason": "of_tomorrow", "text": "4"},
    DONE,
    {"status": "cancelled", "reason": "user", "reasoning": "hm", "timings": TIMES},
    {
        "status": "cancelled",
        "reason": "user",
        "reasoning": "hm",
        "timings": {"ended_at": "2026-03-01T12:00:01Z"},
    },
    {
        "status": "cancelled",
        "timings": {"first_token_at": TIMES["created_at"], "ended_at": TIMES["created_at"]},
        "usage": USAGE,
        "reasoning": "hm",
    },
    {
        "status": "failed",
        "reason": "truncated",
        "text": "4",
        "error": {"code": "truncated", "message": "m", "retryable": True},
    },
    *(
        {"status": status, "tool_calls": [CALL | call]}
        for status in ("in_progress", "interrupted")
        for call in CALLS
    ),
]


def told(fields: dict[str, Any], asked: str) -> dict[str, Any]:
    snapshot = msgspec.convert(fields, Snapshot)
    ended = snapshot.status in TERMINAL
    return {
        "state": "" if ended else words.state_of(snapshot),
        "reasoning": answers.reasoning_of(snapshot),
        "reasoning_of_parts": answers.reasoning_of(snapshot, only_this=False),
        "instead": answers.instead_of(snapshot, asked),
        "figures": [list(pair) for pair in answers.figures_of(snapshot)],
        "figures_of_part": [*map(list, answers.figures_of(snapshot, only_this=False)[:1])],
        "calls": [
            msgspec.to_builtins(answers.call_of(c, ended=ended)) for c in snapshot.tool_calls
        ],
    }


def all_cases() -> list[dict[str, Any]]:
    return [
        {"snapshot": fields, "asked": asked, "told": told(fields, asked)}
        for fields in SNAPSHOTS
        for asked in (("", "fast", "slow") if fields.get("model") else ("slow",))
    ]


def test_the_shared_cases_are_what_the_server_says() -> None:
    """Renew them, with DJANGO_SETTINGS_MODULE=tests.settings: python -c
    'import django; django.setup(); from tests.chatapp.test_answers import renew; renew()'"""
    assert json.loads(FIXTURE.read_text(encoding="utf-8")) == json.loads(json.dumps(all_cases()))


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0.9, "a moment"), (1, "1 s"), (59.999, "59 s"), (60, "1 min 0 s"), (3725, "62 min 5 s")],
)
def test_how_long_it_reasoned(seconds: float, said: str) -> None:
    until = (
        f"2026-03-01T{12 + int(seconds) // 3600}:{int(seconds) // 60 % 60:02}:{seconds % 60:06.3f}Z"
    )
    times = {"first_token_at": "2026-03-01T12:00:00Z", "first_text_at": until}
    fields = {"status": "completed", "reasoning": "hm", "text": "4", "timings": times}
    label = answers.reasoning_of(msgspec.convert(fields, Snapshot))
    assert label == words.table()["reasoning"]["for"].format(time=said)


def test_figures_are_of_the_whole_and_plain_to_read() -> None:
    timings = TIMES | {"ended_at": "2026-03-01T12:00:11.250Z"}
    fields = DONE | {"text": "4", "timings": timings, "usage": USAGE, "upstream_model": "fast-1"}
    figures = dict(answers.figures_of(msgspec.convert(fields, Snapshot)))
    assert figures == {
        "Model": "fast (fast-1)",
        "Tokens read": "1,234,567, 1,000 of them cached",
        "Tokens written": "4,321",
        "Speed": "432.1 tokens a second",
        "First token": "after 1.2 s",
        "All of it": "11.2 s",
        "Ended": "The model was done",
        "Response": "0-r1",
    }


@pytest.mark.parametrize("status", sorted(set(Status) - TERMINAL))
def test_a_running_answer_has_no_figures_yet(status: Status) -> None:
    assert answers.figures_of(Snapshot(status=status, model="fast")) == []


def renew() -> None:
    lines = ",\n".join(f"  {json.dumps(case)}" for case in all_cases())
    FIXTURE.write_text(f"[\n{lines}\n]\n", encoding="utf-8")
