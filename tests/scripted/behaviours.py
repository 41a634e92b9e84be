"""Scripts that a message chooses, for tests of whole processes and of browsers."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from tests.scripted.steps import Done, EndBody, Hang, Head, Pause, Reset, Say, Status, Step

WORD_MS = 20
"""Between the words of an answer that no script describes: a person's reading speed, roughly."""

_ASKED = re.compile(
    r"(say|slow-first|stall:after|cut:after|reset:after|fail):(\d+)(?: every:(\d+))?(?: as:(\w+))?"
)


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
