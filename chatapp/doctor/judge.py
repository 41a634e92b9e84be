"""What was observed, as findings: what is wrong, which hop does it, what to change there.

A hop is blamed by comparison: what is also seen past the proxy is the application's own. Where only
one way was looked at, it is whoever answered there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final
from urllib.parse import urlsplit

from chatapp.doctor import hops
from chatapp.doctor.arrivals import Holding, holding
from chatapp.doctor.observed import Flow, Path, Report

SKEW_S: Final = 5.0
"""Tickets, sessions and cookies are dated; below this nobody notices."""
FIRST_BYTE_S: Final = 1.0
"""The door answers in milliseconds; a second is what a person notices."""
FNAME: Final = 0x08
"""RFC 1952: this gzip member has a file name. Python's writer puts one there, proxies do not."""


class Level(StrEnum):
    FAULT = "fault"
    NOTE = "note"
    """Worth knowing, nothing to mend."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One sentence about one hop."""

    code: str
    level: Level
    hop: str
    what: str
    change: str = ""


def judge(report: Report) -> list[Finding]:
    """Faults first. An empty list, or notes alone: streams pass as they are sent."""
    found = [finding for look in _LOOKS for finding in look(report)]
    return sorted(found, key=lambda finding: finding.level is Level.NOTE)


def _make(
    report: Report,
    code: str,
    what: str,
    *,
    level: Level = Level.FAULT,
    own: Callable[[Path], object] | None = None,
    hop: str = "",
) -> Finding:
    """`own` says whether a way has this fault: if the direct one has it too, the hop is ours."""
    if not hop:
        hop = hops.name_of(report.public.flow)
        if report.direct is not None and own is not None:
            if own(report.direct):
                hop = hops.APPLICATION
            elif hop == hops.APPLICATION:
                hop = hops.UNNAMED
    safe_s = max(4 * report.heartbeat_s, 1.0)
    change = hops.advice(code, hop, {"safe_s": safe_s})
    return Finding(code=code, level=level, hop=hop, what=what, change=change)


def _held(path: Path) -> Holding | None:
    flow = path.plain or path.flow
    return holding(flow.arrivals, flow.gap_ms / 1000)


def _held_when_bare(path: Path) -> Holding | None:
    return holding(path.bare.arrivals, path.bare.gap_ms / 1000) if path.bare else None


def _buffers(report: Report) -> Iterator[Finding]:
    if held := _held(report.public):
        what = f"Streams are held back: {_words(held)}."
        yield _make(report, "buffers", what, own=_held)
    elif held := _held_when_bare(report.public):
        what = (
            "Streams pass only because their header X-Accel-Buffering: no asks for it; by its own "
            f"settings this hop holds them back ({_words(held)}), and would as soon as anything "
            "before it drops that header."
        )
        yield _make(report, "buffers_when_bare", what, own=_held_when_bare)


def _words(held: Holding) -> str:
    worst = f"up to {held.longest_s:.1f} s late"
    match held.kind:
        case "whole":
            return "nothing came before the end, or before far more than 64 KiB"
        case "bytes":
            return f"{held.size_bytes // 1024} KiB are collected first, {worst}"
        case "tail":
            size = f"{held.size_bytes // 1024} KiB"
            return f"the end of what is longer than {size} waits until something follows"
        case "time":
            return f"they are let go every {held.every_s:.1f} s, {worst}"
        case "bursts":
            return f"they come in bursts, {worst}"


def _compressed(report: Report) -> Iterator[Finding]:
    flow = report.public.flow
    if not flow.encoding:
        return
    what = (
        f"Streams come compressed ({flow.encoding}), though they say no-transform: each event "
        "costs a flush or waits for one, and secrets beside typed text can be guessed by length."
    )
    python = flow.encoding == "gzip" and len(flow.first_bytes) > 3 and flow.first_bytes[3] & FNAME
    if python:
        what += " Its gzip header is Django's GZipMiddleware's."
    hop = hops.APPLICATION if python else ""
    yield _make(report, "compressed", what, own=lambda path: path.flow.encoding, hop=hop)


def _wrong_headers(path: Path) -> str:
    headers = path.flow.headers
    said = {word.strip().lower() for word in headers.get("cache-control", "").split(",")}
    wrong = []
    if "no-transform" not in said:
        wrong.append("Cache-Control has no no-transform")
    if "no-cache" not in said and "no-store" not in said:
        wrong.append("Cache-Control has no no-cache")
    kind = headers.get("content-type", "")
    if not kind.lower().startswith("text/event-stream"):
        wrong.append(f"Content-Type is {kind[:60]!r} instead of text/event-stream")
    return "; ".join(wrong)


def _headers(report: Report) -> Iterator[Finding]:
    if wrong := _wrong_headers(report.public):
        what = f"Headers of streams are not as they were sent: {wrong}."
        yield _make(report, "headers", what, own=_wrong_headers)


def _cut(path: Path) -> bool:
    return path.quiet is not None and not path.quiet.whole


def _idle(report: Report) -> Iterator[Finding]:
    flow, quiet = report.public.plain or report.public.flow, report.public.quiet
    if not flow.whole:
        last = flow.arrivals[-1].received_s if flow.arrivals else 0.0
        what = f"A stream was cut while it was being sent, {last:.1f} s after it was asked for."
        yield _make(report, "cut", what, own=lambda p: not (p.plain or p.flow).whole)
    if quiet is not None and not quiet.whole:
        what = (
            f"A silent stream is cut after {quiet.lasted_s:.1f} s; heartbeats come every "
            f"{report.heartbeat_s:g} s, so every answer that pauses breaks off."
        )
        if quiet.lasted_s > report.heartbeat_s:
            what = (
                f"A silent stream is cut after {quiet.lasted_s:.1f} s, hardly more than the "
                f"{report.heartbeat_s:g} s between heartbeats: a late one breaks it off."
            )
        yield _make(report, "idle_timeout", what, own=_cut)


def _connections(report: Report) -> Iterator[Finding]:
    tabs, version = report.public.tabs, report.public.flow.http_version
    if tabs is None or not tabs.waited:
        return
    what = (
        f"The public path speaks {version}, over which a browser opens six connections to a site: "
        f"of {tabs.opened} streams {tabs.waited} waited until another had ended."
    )
    # Browsers speak HTTP/2 over TLS alone, so on a bare port there is nothing to mend.
    level = Level.FAULT if urlsplit(report.public.url).scheme == "https" else Level.NOTE
    yield _make(report, "six_connections", what, level=level)


def _behind(report: Report) -> Iterator[Finding]:
    if report.public.flow.hello.get("http_version") == "1.0":
        what = "This hop speaks HTTP/1.0 to the server: a connection for each request."
        yield _make(report, "http10", what, level=Level.NOTE)


def _leaving(report: Report) -> Iterator[Finding]:
    leave = report.public.leave
    if leave is not None and leave.noticed_s is None:
        what = (
            "A viewer's leaving does not reach the server (it was still sending after "
            f"{leave.watched_s:.0f} s): presence is wrong, and answers go on for nobody."
        )
        yield _make(
            report,
            "leave_unnoticed",
            what,
            own=lambda path: path.leave is not None and path.leave.noticed_s is None,
        )


def _unexamined(report: Report) -> Iterator[Finding]:
    """What is not said must not pass for what is well."""
    path = report.public
    looks = {
        "an answer without our headers": path.bare,
        "a silence": path.quiet,
        "seven tabs": path.tabs,
        "a viewer who leaves": path.leave,
    }
    if missing := [name for name, seen in looks.items() if seen is None]:
        what = (
            "Not examined, because the server did not let it be seen in time: "
            f"{', '.join(missing)}. Nothing is said about it here."
        )
        yield _make(report, "unexamined", what, level=Level.NOTE, hop=hops.APPLICATION)


def _half_close(report: Report) -> Iterator[Finding]:
    if report.public.half_close == "closed":
        what = (
            "A client that closes its own half of the connection after asking loses the stream "
            "(scripts with `nc` do, browsers do not)."
        )
        own = lambda path: path.half_close == "closed"  # noqa: E731 - a name for one line
        yield _make(report, "half_close", what, level=Level.NOTE, own=own)


def _slow(path: Path) -> bool:
    first_s = path.flow.first_byte_s
    return first_s is not None and first_s - path.flow.connected_s > FIRST_BYTE_S


def _first_byte(report: Report) -> Iterator[Finding]:
    flow = report.public.flow
    if _slow(report.public) and not _held(report.public) and flow.first_byte_s is not None:
        what = (
            f"The first byte took {flow.first_byte_s:.2f} s, {flow.connected_s:.2f} s of it for "
            f"the connection (headers after {flow.headers_s:.2f} s)."
        )
        yield _make(report, "slow_first_byte", what, own=_slow)


def skew_s(flow: Flow) -> float:
    """How far the server's clock is ahead of ours; 0 where both readings are possible."""
    if not flow.arrivals:
        return 0.0
    first = flow.arrivals[0]
    earliest, latest = flow.asked_at, flow.asked_at + first.received_s
    return max(first.sent_at - latest, 0.0) + min(first.sent_at - earliest, 0.0)


def _clock(report: Report) -> Iterator[Finding]:
    skew = skew_s(report.public.flow)
    if abs(skew) >= SKEW_S:
        side = "ahead of" if skew > 0 else "behind"
        what = f"The server's clock is {abs(skew):.0f} s {side} this machine's; one is wrong."
        yield _make(report, "clock_skew", what, hop=hops.APPLICATION)


_Look = Callable[[Report], Iterator[Finding]]
_LOOKS: Final[tuple[_Look, ...]] = (
    _buffers,
    _compressed,
    _headers,
    _idle,
    _connections,
    _leaving,
    _first_byte,
    _clock,
    _behind,
    _half_close,
    _unexamined,
)
