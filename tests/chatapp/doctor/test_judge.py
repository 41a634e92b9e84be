"""From what was seen to sentences: whose fault it is, and which line mends it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from chatapp.doctor import Finding, Level, Path, Report, judge
from chatapp.doctor.observed import Flow, Leave, Quiet, Tabs
from tests.chatapp.doctor.hops_played import GAP_MS, SKEW_S, promptly, through, whole

SENT = {
    "content-type": "text/event-stream; charset=utf-8",
    "cache-control": "no-cache, no-transform",
    "server": "uvicorn",
}
HELLO = {"http_version": "1.1", "via": "", "forwarded": []}


def a_flow(**more: Any) -> Flow:
    values: dict[str, Any] = {
        "status": 200,
        "http_version": "HTTP/2",
        "headers": SENT,
        "gap_ms": GAP_MS,
        "asked_at": SKEW_S,
        "arrivals": tuple(through(promptly)),
        "whole": True,
        "hello": HELLO,
    }
    return Flow(**(values | more))


def a_path(flow: Flow | None = None, **more: Any) -> Path:
    seen: dict[str, Any] = {
        "url": "https://chat.example.org",
        "bare": a_flow(),
        "quiet": Quiet(silence_s=18, lasted_s=18, whole=True),
        "tabs": Tabs(opened=7, waited=0),
        "leave": Leave(noticed_s=0.1, watched_s=5),
        "half_close": None,
    }
    return Path(flow=flow or a_flow(), **(seen | more))


def found(public: Path, direct: Path | None = None) -> dict[str, Finding]:
    report = Report(heartbeat_s=15, public=public, direct=direct)
    return {finding.code: finding for finding in judge(report)}


def behind(server: str, **more: Any) -> dict[str, str]:
    return SENT | {"server": server} | more


def test_a_good_way_has_no_findings() -> None:
    assert found(a_path()) == {}
    assert found(a_path(), a_path()) == {}


GZIP = bytes([0x1F, 0x8B, 8, 0])
NAMED_GZIP = bytes([0x1F, 0x8B, 8, 8])
PACKED = behind("nginx/1.22.1") | {"content-encoding": "gzip"}


def test_the_hop_is_whoever_does_it_on_one_way_and_not_on_the_other() -> None:
    packed = a_path(a_flow(headers=PACKED, first_bytes=GZIP), plain=a_flow())
    assert found(packed)["compressed"].hop == "nginx"
    assert found(packed, a_path())["compressed"].hop == "nginx"
    assert found(packed, packed)["compressed"].hop == "the application"


def test_a_hop_without_a_name_is_one_all_the_same() -> None:
    held = a_path(a_flow(arrivals=tuple(through(whole))))
    assert found(held)["buffers"].hop == "the application"
    assert found(held, a_path())["buffers"].hop.startswith("a proxy that does not say its name")
    forwarded = a_flow(arrivals=tuple(through(whole)), hello=HELLO | {"forwarded": ["x-real-ip"]})
    assert found(a_path(forwarded))["buffers"].hop.startswith("a proxy that does not say its name")


def test_djangos_own_packing_is_known_by_its_gzip_header() -> None:
    packed = a_path(a_flow(headers=PACKED, first_bytes=NAMED_GZIP), plain=a_flow())
    finding = found(packed)["compressed"]
    assert finding.hop == "the application"
    assert "GZipMiddleware" in finding.what


@pytest.mark.parametrize(
    ("headers", "hop"),
    [
        (behind("openresty"), "nginx"),
        (behind("Caddy"), "Caddy"),
        (behind("cloudflare", **{"cf-ray": "1"}), "Cloudflare"),
        (behind("uvicorn", **{"x-varnish": "2"}), "Varnish"),
        (behind("uvicorn", via="1.1 squid"), "a proxy that calls itself '1.1 squid'"),
        (behind("gunicorn"), "a server that calls itself 'gunicorn'"),
    ],
)
def test_hops_are_known_by_what_they_say(headers: dict[str, str], hop: str) -> None:
    headers = headers | {"cache-control": "no-cache"}
    finding = found(a_path(a_flow(headers=headers)))["headers"]
    assert finding.hop == hop
    assert "no-transform" in finding.what


def test_a_silence_that_is_cut_is_compared_with_the_heartbeat() -> None:
    flow = a_flow(headers=behind("nginx"))
    cut = Quiet(silence_s=18, lasted_s=10.02, whole=False)
    early = found(a_path(flow, quiet=cut))["idle_timeout"]
    assert "cut after 10.0 s" in early.what
    assert "proxy_read_timeout 60s" in early.change
    barely = found(a_path(flow, quiet=replace(cut, lasted_s=16.0)))["idle_timeout"]
    assert "hardly more" in barely.what


def test_six_connections_are_a_fault_only_where_there_could_be_more() -> None:
    tabs, flow = Tabs(opened=7, waited=1), a_flow(http_version="HTTP/1.1")
    assert found(a_path(flow, tabs=tabs))["six_connections"].level is Level.FAULT
    plain = replace(a_path(flow, tabs=tabs), url="http://127.0.0.1:8000")
    assert found(plain)["six_connections"].level is Level.NOTE


def test_who_leaves_unnoticed_and_who_is_cut_is_told() -> None:
    gone = Leave(noticed_s=None, watched_s=5)
    assert "leave_unnoticed" in found(a_path(leave=gone))
    assert "cut" in found(a_path(a_flow(whole=False)))


@pytest.mark.parametrize(("ahead_s", "word"), [(30.0, "ahead of"), (-30.0, "behind")])
def test_a_clock_that_is_wrong_is_told(ahead_s: float, word: str) -> None:
    finding = found(a_path(a_flow(asked_at=SKEW_S - ahead_s)))["clock_skew"]
    assert f"30 s {word}" in finding.what


def test_a_late_first_byte_is_told_and_the_connection_is_not_counted() -> None:
    late = tuple(replace(one, received_s=one.received_s + 2) for one in through(promptly))
    assert "slow_first_byte" in found(a_path(a_flow(arrivals=late)))
    assert "slow_first_byte" not in found(a_path(a_flow(arrivals=late, connected_s=1.5)))


def test_faults_come_before_notes() -> None:
    flow = a_flow(hello=HELLO | {"http_version": "1.0"}, whole=False)
    report = Report(heartbeat_s=15, public=a_path(flow, half_close="closed"))
    levels = [finding.level for finding in judge(report)]
    assert levels == [Level.FAULT, Level.NOTE, Level.NOTE]


def test_what_could_not_be_seen_is_named_and_not_passed_over() -> None:
    told = found(a_path(leave=None, tabs=None))["unexamined"]
    assert told.level is Level.NOTE
    assert "seven tabs, a viewer who leaves." in told.what
    assert "silence" not in told.what
    assert "again" in told.change
