"""What a probe has seen, without an opinion. Times are seconds since the request was sent, but for
those of the server's clock and the two of ours that they are compared with."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class Arrival:
    """One frame."""

    n: int
    size_bytes: int
    sent_at: float
    """Server's wall clock."""
    received_s: float
    """Since the request was sent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Flow:
    """One stream of frames a tenth of a second apart."""

    status: int
    http_version: str
    headers: dict[str, str]
    """Names in lower case."""
    gap_ms: int
    asked_at: float = 0.0
    """Our wall clock when the request was sent."""
    connected_s: float = 0.0
    """TCP and TLS; 0 where it is not known."""
    headers_s: float = 0.0
    arrivals: tuple[Arrival, ...] = ()
    whole: bool = False
    """Its last frame has come."""
    first_bytes: bytes = b""
    """Of the body as it came, packed or not."""
    hello: dict[str, Any] = field(default_factory=dict)
    """What the server saw of the request."""

    @property
    def first_byte_s(self) -> float | None:
        return self.arrivals[0].received_s if self.arrivals else None

    @property
    def encoding(self) -> str:
        found = self.headers.get("content-encoding", "")
        return "" if found == "identity" else found


@dataclass(frozen=True, slots=True, kw_only=True)
class Quiet:
    """A stream that is silent for longer than the heartbeat."""

    silence_s: float
    lasted_s: float
    """Until its last frame, or until it was cut."""
    whole: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Tabs:
    """Streams opened as a browser does: at most six connections to a site."""

    opened: int
    waited: int
    """Of them, those that the server heard of only when another had ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Leave:
    """A viewer that closed its connection in the middle of a silence."""

    noticed_s: float | None
    """None: the server went on for as long as it was watched."""
    watched_s: float


HalfClose = Literal["kept", "closed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Path:
    """Everything seen on one way to the server."""

    url: str
    flow: Flow
    plain: Flow | None = None
    """Once more without compression, where the first came compressed."""
    bare: Flow | None = None
    """Once more without the headers that ask hops to leave a stream alone."""
    quiet: Quiet | None = None
    tabs: Tabs | None = None
    leave: Leave | None = None
    half_close: HalfClose | None = None
    """None: it was not asked, because TLS closes both ways at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """One examination."""

    heartbeat_s: float
    public: Path
    direct: Path | None = None
