"""A provider that does what it is told: a raw HTTP/1.1 server that speaks OpenAI chat, and the
dialects of Anthropic and OpenAI Responses on their paths.

In tests, scripts say step by step what an answer does, and gates stand where others would sleep:

    async with ScriptedUpstream() as up:
        up.script("hello", Say("Hel"), Gate("go"), Say("lo"), Done())
        …
        up.open("go")

`python -m tests.scripted --port N` runs it as a process; then the last user message chooses:
`say:40`, `say:200 every:20` (ms between words), `slow-first:300`, `stall:after:10`, `cut:after:10`
(the body ends without an end marker), `reset:after:10`, `fail:429`, `hang` (not one byte);
`think:9` (reasoning, then words), `call:9` and `miscall:9` (arguments of nine words, whole or
broken), `read:9` (the prompt, in nine parts), these also with ` every:20 hang` (no end). With
` as:r1` at its end the words are `r1.1.1 r1.1.2 …`: tag, attempt, number. Any other text is said
back, word by word. `GET /stats` lists the requests and what became of them.
"""

from __future__ import annotations

from tests.scripted.play import Request
from tests.scripted.server import ScriptedUpstream
from tests.scripted.steps import (
    Close,
    Done,
    EndBody,
    Gate,
    Hang,
    Head,
    Pause,
    Raw,
    Reset,
    Say,
    Send,
    Status,
    Step,
    Whole,
    Wire,
)

__all__ = [
    "Close",
    "Done",
    "EndBody",
    "Gate",
    "Hang",
    "Head",
    "Pause",
    "Raw",
    "Request",
    "Reset",
    "Say",
    "ScriptedUpstream",
    "Send",
    "Status",
    "Step",
    "Whole",
    "Wire",
]
