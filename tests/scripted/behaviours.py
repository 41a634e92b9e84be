"""Scripts that a message chooses, for tests of whole processes and of browsers."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from tests.scripted.steps import Done, EndBody, Hang, Head, Pause, Reset, Say, Send, Status, Step

WORD_MS = 20
"""Between the words of an answer that no script describes: a person's reading speed, roughly."""

_ASKED = re.compile(
    r"(say|slow-first|stall:after|cut:after|reset:after|fail):(\d+)(?: every:(\d+))?(?: as:(\w+))?"
)
_LIVES = re.compile(r"(think|call|miscall|read):(\d+)(?: every:(\d+))?(?: (hang))?")


def last_user_text(body: Mapping[str, Any]) -> str:
    for message in reversed(body.get("messages") or body.get("input") or []):
        if message.get("role") == "user":
            content = message.get("content", "")
            if isinstance(content, str):
                return content.strip()
            return "".join(part.get("text", "") for part in content).strip()
    return ""


def behaviour(text: str, attempt: int = 1) -> list[Step]:
    """The script that a message asks for, see the head of the package.

    `attempt`: how often the same was asked by now; a tagged answer says it with every word.
    """
    asked = _ASKED.fullmatch(text)
    if text == "hang":
        return [Hang()]
    if lives := _LIVES.fullmatch(text):
        steps = _life(lives[1], int(lives[2]), int(lives[3] or 0))
        return [*steps, Hang()] if lives[4] else [*steps, *_ending(lives[1])]
    if asked is None:
        return [*_words(f"You said: {text}".split(" "), WORD_MS), Done()]
    name, n, every_ms, tag = asked[1], int(asked[2]), int(asked[3] or 0), asked[4]
    word = f"{tag}.{attempt}." if tag else "word"
    words = _words([f"{word}{i}" for i in range(1, n + 1)], every_ms)
    match name:
        case "say":
            return [*words, Done()]
        case "slow-first":
            return [Head(), Pause(n), Say(f"{word}1" if tag else "Late, but here."), Done()]
        case "stall:after":
            return [*words, Hang()]
        case "cut:after":
            return [*words, EndBody()]
        case "reset:after":
            return [*words, Reset()]
        case _:
            error = {"error": {"message": f"Scripted failure {n}", "type": None, "code": n}}
            return [Status(n, json.dumps(error).encode(), {"Retry-After": "2"})]


def _words(words: Sequence[str], every_ms: float) -> list[Step]:
    steps: list[Step] = []
    for i, word in enumerate(words):
        if i and every_ms:
            steps.append(Pause(every_ms))
        steps.append(Say(word if i == 0 else f" {word}"))
    return steps


def _life(name: str, n: int, every_ms: float) -> list[Step]:
    """What comes before the words of an answer, or instead of them; OpenAI chat only."""
    match name:
        case "think":
            deltas = [{"reasoning_content": f"thought{i} "} for i in range(1, n + 1)]
        case "read":
            return _paced([Send(_progress(i, n)) for i in range(n + 1)], every_ms)
        case _:
            words = [f"word{i} " for i in range(1, n + 1)]
            end = '"}' if name == "call" else ""
            pieces = ['{"city": "Bern", "days": 3, "note": "', *words, end]
            deltas = [_call({"arguments": piece}) for piece in pieces]
            deltas = [_call({"name": "look_up", "arguments": ""}, id="call_1"), *deltas]
    return _paced([Send({"choices": [{"index": 0, "delta": delta}]}) for delta in deltas], every_ms)


def _ending(name: str) -> list[Step]:
    if name not in ("call", "miscall"):
        return [*_words(["It", "is", "42."], WORD_MS), Done()]
    return [
        Send({"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]}),
        Send("[DONE]"),
    ]


def _call(function: dict[str, str], **more: str) -> dict[str, Any]:
    return {"tool_calls": [{"index": 0, "type": "function", "function": function, **more}]}


def _progress(done: int, total: int) -> dict[str, Any]:
    progress = {"processed": done * 128, "total": total * 128, "cache": 0, "time_ms": 1}
    delta = {"role": "assistant", "content": None}
    return {"choices": [{"index": 0, "delta": delta}], "prompt_progress": progress}


def _paced(steps: Sequence[Step], every_ms: float) -> list[Step]:
    return [paced for step in steps for paced in (step, Pause(every_ms))]
