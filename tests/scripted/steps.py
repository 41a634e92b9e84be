"""What a scripted answer can do, one step after the other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Say:
    """One chunk with a text delta."""

    text: str


@dataclass(frozen=True, slots=True)
class Send:
    """One chunk with this JSON, or one event with this text."""

    data: Any


@dataclass(frozen=True, slots=True)
class Raw:
    """Bytes of the body, as they are."""

    data: bytes


@dataclass(frozen=True, slots=True)
class Wire:
    """Bytes on the socket, outside of HTTP: garbage."""

    data: bytes


@dataclass(frozen=True, slots=True)
class Gate:
    """Wait until the test opens it."""

    name: str


@dataclass(frozen=True, slots=True)
class Pause:
    """Real time, only where a fault needs it."""

    ms: float


@dataclass(frozen=True, slots=True)
class Hang:
    """Nothing more, until the client goes away."""


@dataclass(frozen=True, slots=True)
class Done:
    """Finish reason, usage, `[DONE]`, and the end of the body; the connection stays open."""

    reason: str = "stop"


@dataclass(frozen=True, slots=True)
class Whole:
    """The answer as one JSON body, as it comes when nobody asked for a stream."""

    text: str


@dataclass(frozen=True, slots=True)
class EndBody:
    """The body ends as HTTP wants, whatever the answer lacks."""


@dataclass(frozen=True, slots=True)
class Close:
    """The socket is closed in the middle of the body (FIN)."""


@dataclass(frozen=True, slots=True)
class Reset:
    """The socket is reset (RST)."""


@dataclass(frozen=True, slots=True)
class Status:
    """Another answer than an event stream."""

    status: int
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Head:
    """Send the head of the stream now, with these headers besides its own."""

    headers: Mapping[str, str] = field(default_factory=dict)


Step = (
    Say
    | Send
    | Raw
    | Wire
    | Gate
    | Pause
    | Hang
    | Done
    | Whole
    | EndBody
    | Close
    | Reset
    | Status
    | Head
)
