"""The stream doctor before real proxies: each is told what is wrong with it, and nothing else."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest

from chatapp.doctor import Finding, Level, Report, judge
from chatapp.doctor.probe import examine
from tests import proxies
from tests.ports import free_port
from tests.process.withholding import withholding
from tests.site import ROOT, Proc, Site

pytestmark = [pytest.mark.process, pytest.mark.timeout(300)]

SHORT: Final[dict[str, Any]] = {"heartbeat_s": 1.0, "gap_ms": 60}
REAL: Final[dict[str, Any]] = {"heartbeat_s": None, "gap_ms": 60}
"""With the fifteen seconds that heartbeats really have."""
AT_A_TIME: Final = 2

# What is wrong by name of the way, with the hop that does it. Nothing else may be found wrong.
FAULTS: Final[dict[str, dict[str, str]]] = {
    "direct": {},
    "nginx default": {"buffers_when_bare": "nginx"},
    "nginx tuned": {},
    "nginx gzip on": {"compressed": "nginx"},
    "nginx idle timeout 10 s": {"idle_timeout": "nginx"},
    "django gzip": {"compressed": "the application"},
    "nginx over HTTP/1.1": {"six_connections": "nginx"},
    "haproxy": {},
    "whole body held": {"buffers": "a proxy that does not say its name"},
    # Beyond the nine that were asked for.
    "nginx deaf to us": {"buffers": "nginx", "headers": "nginx"},
    "nginx keeps asking": {"leave_unnoticed": "nginx"},
    "caddy": {},
    "caddy flushing": {"leave_unnoticed": "Caddy"},
    "haproxy compression": {},  # it obeys no-transform
    "daphne": {},
    "nginx before daphne": {},
    "nginx default before daphne": {"buffers_when_bare": "nginx"},
}


@dataclass
class Seen:
    report: Report
    findings: list[Finding] = field(default_factory=list)

    def codes(self, level: Level) -> dict[str, Finding]:
        return {one.code: one for one in self.findings if one.level is level}


class Ways:
    """Every proxy at once, in front of two web processes and one of Daphne's."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._turns = asyncio.Semaphore(AT_A_TIME)
        self.ticket = ""
        self.told: dict[str, tuple[int, dict[str, Any]]] = {}

    async def look(self) -> dict[str, Seen]:
        async with AsyncExitStack() as stack:
            env = {"ALLOWED_HOSTS": "localhost,127.0.0.1", "TRUSTED_PROXIES": "127.0.0.1"}
            site = await stack.enter_async_context(Site(self._folder, webs=2, env=env))
            self.ticket = site.manage("shell", "-c", TICKET).strip().splitlines()[-1]
            packing = await self._packing(site, stack)
            (slow := self._folder / "daphne").mkdir()
            other = await stack.enter_async_context(Site(slow, server="daphne", env=env))
            (one, two), (daphne,) = site.urls, other.urls
            urls: dict[str, tuple[str, str | None]] = {
                "direct": (one, None),
                "daphne": (daphne, None),
                "django gzip": (packing, None),
                "whole body held": (
                    await stack.enter_async_context(withholding(int(one.rsplit(":", 1)[1]))),
                    None,
                ),
            }
            for name, proxy, direct in self._proxies(one, two, daphne):
                stack.enter_context(proxy)
                urls[name] = (proxy.url, direct)
            seen = await asyncio.gather(*(self._examine(name, *urls[name]) for name in FAULTS))
            self.told = {
                name: await asyncio.to_thread(command, site, urls[name][0])
                for name in ("nginx over HTTP/1.1", "direct")
            }
            self.told["refused"] = await asyncio.to_thread(command, site, one, SECRET_KEY="another")
            self.told["nobody"] = await asyncio.to_thread(
                command, site, f"http://127.0.0.1:{free_port()}"
            )
            return dict(zip(FAULTS, seen, strict=True))

    def _proxies(
        self, one: str, two: str, daphne: str
    ) -> Iterator[tuple[str, proxies.Proxy, str | None]]:
        ours, folder = proxies.our_nginx, self._folder
        yield "nginx before daphne", ours(folder, daphne, name="nginx-daphne"), daphne
        bare = proxies.default_nginx(folder, daphne, name="nginx-daphne-default")
        yield "nginx default before daphne", bare, daphne
        packs = ("gzip off;.*", "gzip on; gzip_types text/event-stream; gzip_min_length 0;")
        yield "nginx default", proxies.default_nginx(folder, one), None
        yield "nginx tuned", ours(folder, two), two
        yield "nginx gzip on", ours(folder, one, packs, name="nginx-gzip"), one
        impatient = ("proxy_read_timeout 60s", "proxy_read_timeout 10s")
        yield "nginx idle timeout 10 s", ours(folder, two, impatient, name="nginx-idle"), None
        old = ("ssl http2", "ssl")
        yield "nginx over HTTP/1.1", ours(folder, one, old, name="nginx-http1"), None
        deaf = (
            "proxy_buffering off;.*",
            "proxy_ignore_headers X-Accel-Buffering; proxy_hide_header Cache-Control;",
        )
        yield "nginx deaf to us", ours(folder, two, deaf, name="nginx-deaf"), None
        keeps = ("proxy_ignore_client_abort off", "proxy_ignore_client_abort on")
        yield "nginx keeps asking", ours(folder, one, keeps, name="nginx-keeps"), None
        yield "haproxy", proxies.our_haproxy(folder, two), two
        yield "caddy", proxies.our_caddy(folder, one), None
        flushing = (r"\t\ttransport http", "\t\tflush_interval -1\n\t\ttransport http")
        yield "caddy flushing", proxies.our_caddy(folder, two, flushing, name="caddy-f"), None
        gzip = (
            "(?m)^backend web$",
            "backend web\n    compression algo gzip\n    compression type text/event-stream",
        )
        yield "haproxy compression", proxies.our_haproxy(folder, two, gzip, name="haproxy-z"), None

    async def _packing(self, site: Site, stack: AsyncExitStack) -> str:
        url = f"http://127.0.0.1:{(port := free_port())}"
        argv = [sys.executable, "-m", "uvicorn", "tests.process.packing:application"]
        argv += ["--port", str(port), "--log-level", "warning"]
        proc = Proc("packing", argv, site.env, self._folder / "packing.log")
        stack.callback(proc.kill)
        await site.until_ready(url)
        return url

    async def _examine(self, name: str, url: str, direct: str | None) -> Seen:
        more = REAL if "10 s" in name else SHORT
        async with self._turns:
            report = await examine(url, self.ticket, direct=direct, verify=False, **more)
        return Seen(report, judge(report))


def command(site: Site, url: str, **env: str) -> tuple[int, dict[str, Any]]:
    """Exit status, and the object that it prints."""
    argv = [sys.executable, "manage.py", "stream_doctor", url, "--json", "--insecure"]
    done = subprocess.run(
        [*argv, "--heartbeat", "0.5", "--gap", "30"],
        cwd=ROOT,
        env=site.env | env,
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


TICKET: Final = "from chatapp.doctor import make_ticket; print(make_ticket())"


@pytest.fixture(scope="module")
def looked(tmp_path_factory: pytest.TempPathFactory) -> tuple[Ways, dict[str, Seen]]:
    ways = Ways(tmp_path_factory.mktemp("ways"))
    return ways, asyncio.run(ways.look())


@pytest.fixture
def seen(looked: tuple[Ways, dict[str, Seen]]) -> dict[str, Seen]:
    return looked[1]


@pytest.fixture
def told(looked: tuple[Ways, dict[str, Seen]]) -> dict[str, tuple[int, dict[str, Any]]]:
    return looked[0].told


@pytest.mark.parametrize("name", FAULTS)
def test_each_way_is_told_what_is_wrong_with_it(name: str, seen: dict[str, Seen]) -> None:
    faults = seen[name].codes(Level.FAULT)
    told = {code: finding.hop for code, finding in faults.items()}
    leave = seen[name].report.public.leave
    assert told.keys() == FAULTS[name].keys(), (faults, leave)
    for code, hop in FAULTS[name].items():
        assert told[code].startswith(hop), faults
        assert faults[code].change, faults


def test_what_is_cut_was_waited_for_as_long_as_it_took(seen: dict[str, Seen]) -> None:
    quiet = seen["nginx idle timeout 10 s"].report.public.quiet
    assert quiet is not None
    assert 9 < quiet.lasted_s < 14


def test_the_seventh_tab_waits_over_http_1_and_none_over_http_2(seen: dict[str, Seen]) -> None:
    waited = {name: one.report.public.tabs for name, one in seen.items()}
    assert (tabs := waited["nginx over HTTP/1.1"]) is not None
    assert tabs.waited == 1
    for name in ("nginx tuned", "haproxy", "caddy"):
        assert (tabs := waited[name]) is not None, name
        assert tabs.waited == 0, name
        assert seen[name].report.public.flow.http_version == "HTTP/2", name


def test_nginx_before_http_1_1_is_noted(seen: dict[str, Seen]) -> None:
    assert "http10" in seen["nginx default"].codes(Level.NOTE)


def test_the_exit_status_says_whether_something_needs_mending(
    told: dict[str, tuple[int, dict[str, Any]]],
) -> None:
    status, said = told["nginx over HTTP/1.1"]
    assert status == 1
    codes = {one["code"] for one in said["findings"] if one["level"] == "fault"}
    assert codes == {"six_connections"}
    status, said = told["direct"]
    assert status == 0, said["findings"]
    assert said["public"]["first_byte_s"] < 5
    for name, words in (("refused", "SECRET_KEY"), ("nobody", "cannot be reached")):
        status, said = told[name]
        assert status == 2
        assert words in said["error"]
