"""Asks a server's stream door and writes down what came, when. The judging is done elsewhere.

Over httpx, with HTTP/2 where the server speaks it, and with the headers of a browser; over a bare
socket where httpx will not do what is asked (closing one half of a connection).
"""

from __future__ import annotations

import asyncio
import json
import secrets
import ssl
import time
from contextlib import suppress
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

import httpx

from chatapp.doctor.arrivals import holding
from chatapp.doctor.observed import Arrival, Flow, HalfClose, Leave, Path, Quiet, Report, Tabs
from chatapp.doctor.plan import MARGIN, Plan

BROWSER: Final = {"Accept": "text/event-stream", "Accept-Encoding": "gzip, deflate, br, zstd"}
TABS: Final = 7
CONNECTIONS: Final = 6
"""What browsers open to one site over HTTP/1.1."""
CONNECT_S: Final = 10.0
GRACE_S: Final = 15.0
"""Beyond the time that a stream takes by its plan."""
LOOKS: Final = 4
"""At what seems to be held: a busy machine looks like a buffer once or twice, a buffer always."""
OPEN_S: Final = 20.0
"""For the server to hear of a stream that is to be left: a busy one is slow, no more."""
WATCHED_S: Final = 5.0
"""A proxy that tells of a client's leaving does so within milliseconds."""
POLL_S: Final = 0.25


class CannotExamine(Exception):
    """Nothing can be said of this server. `str()` is a sentence that says why, and what to do."""


async def examine(
    url: str,
    ticket: str,
    *,
    direct: str | None = None,
    heartbeat_s: float | None = None,
    gap_ms: int = 100,
    verify: bool = True,
) -> Report:
    """Look at one way to a server, or at two beside each other. Takes a little over a heartbeat.

    Args:
        url: the site's address as its users type it.
        direct: the same server's address past the proxy, asked by the name that its users type.
        heartbeat_s: silence to be outlasted; by default what the server says is its own.
        verify: whether certificates must be good.

    Raises CannotExamine.
    """
    ways = [url] if direct is None else [url, direct]
    context = ssl.create_default_context()
    if not verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    # Past the proxy it is the same site: by an address alone ALLOWED_HOSTS would refuse it.
    host = urlsplit(url).netloc.rpartition("@")[2]
    probers = [_Prober(way, host, ticket, gap_ms, context) for way in ways]
    flows = await asyncio.gather(*(prober.first_flow() for prober in probers))
    if heartbeat_s is None:
        heartbeat_s = float(flows[0].hello.get("heartbeat_s", 15.0))
    paths = await asyncio.gather(
        *(prober.path(flow, heartbeat_s) for prober, flow in zip(probers, flows, strict=True))
    )
    return Report(
        heartbeat_s=heartbeat_s, public=paths[0], direct=paths[1] if len(paths) > 1 else None
    )


class _Prober:
    """One way to the server."""

    def __init__(
        self, url: str, host: str, ticket: str, gap_ms: int, context: ssl.SSLContext
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise CannotExamine(f"{url!r} is no address; give one like https://chat.example.org")
        self._url = f"{parts.scheme}://{parts.netloc}"
        self._parts = parts
        self._host = host
        self._ticket = ticket
        self._gap_ms = gap_ms
        self._context = context

    async def first_flow(self) -> Flow:
        """Raises CannotExamine."""
        try:
            flow = await self._flow(self._plan())
        except httpx.ConnectError as exc:
            raise CannotExamine(f"{self._url} cannot be reached: {exc}") from exc
        except httpx.TimeoutException as exc:
            raise CannotExamine(f"{self._url} took longer than {CONNECT_S:g} s.") from exc
        except httpx.TransportError as exc:
            raise CannotExamine(f"{self._url} broke off: {exc!r}") from exc
        if flow.status != 200:
            raise CannotExamine(self._refusal(flow))
        for _ in range(LOOKS - 1):
            if not holding(flow.arrivals, flow.gap_ms / 1000):
                break
            with suppress(httpx.TransportError):
                again = await self._flow(self._plan())
                flow = again if again.status == HTTPStatus.OK else flow
        return flow

    def _refusal(self, flow: Flow) -> str:
        match flow.status:
            case 401 | 403:
                why = "does not take this ticket: it was made with another SECRET_KEY than its own"
            case 404 | 421:
                why = "has no /diag/stream: an older version, or a proxy that hides it"
            case 400:
                why = "refuses the request: is this host name among its ALLOWED_HOSTS?"
            case 429:
                why = "has enough probes under way: try again in a quarter of an hour"
            case status if 300 <= status < 400:
                why = f"sends one on to {flow.headers.get('location', 'elsewhere')}: examine that"
            case status:
                why = f"answers {status}"
        return f"{self._url} {why}."

    async def path(self, flow: Flow, heartbeat_s: float) -> Path:
        """All but the first flow, side by side."""
        plain, bare, quiet, tabs, leave, half_close = await asyncio.gather(
            self._plain(flow),
            self._bare(),
            self._quiet(heartbeat_s * MARGIN),
            self._tabs(),
            self._leave(),
            self._half_close(heartbeat_s),
        )
        return Path(
            url=self._url,
            flow=flow,
            plain=plain,
            bare=bare,
            quiet=quiet,
            tabs=tabs,
            leave=leave,
            half_close=half_close,
        )

    def _plan(self, **more: Any) -> Plan:
        return Plan(probe=secrets.token_hex(8), gap_ms=self._gap_ms, **more)

    def _client(self, connections: int = 100) -> httpx.AsyncClient:
        return httpx.AsyncClient(
            base_url=self._url,
            http2=True,
            verify=self._context,
            trust_env=False,  # the way of a browser, not that of this shell
            headers={
                "Host": self._host,
                "Authorization": f"Bearer {self._ticket}",
                **BROWSER,
            },
            limits=httpx.Limits(max_connections=connections),
            timeout=httpx.Timeout(CONNECT_S, read=None, pool=None),
        )

    async def _flow(self, plan: Plan, **headers: str) -> Flow:
        """Raises httpx.TransportError unless at least its headers have come."""
        async with self._client() as client:
            return await _watch(client, plan, headers)

    async def _plain(self, flow: Flow) -> Flow | None:
        if not flow.encoding:
            return None
        with suppress(httpx.TransportError):
            return await self._flow(self._plan(), **{"Accept-Encoding": "identity"})
        return None

    async def _bare(self) -> Flow | None:
        with suppress(httpx.TransportError):
            plain = {"Accept-Encoding": "identity"}
            for _ in range(LOOKS):
                flow = await self._flow(self._plan(bare=True), **plain)
                if not holding(flow.arrivals, flow.gap_ms / 1000):
                    break
            return flow
        return None

    async def _quiet(self, silence_s: float) -> Quiet | None:
        """None where the door refused: nothing is known then."""
        plan = self._plan(phase="quiet", silence_s=silence_s)
        begun_s = time.monotonic()
        seen: list[Flow] = []
        with suppress(httpx.TransportError):
            seen.append(await self._flow(plan, **{"Accept-Encoding": "identity"}))
        if seen and seen[0].status != HTTPStatus.OK and seen[0].status < 500:
            return None
        lasted_s = time.monotonic() - begun_s
        if seen and seen[0].first_byte_s is not None:
            lasted_s -= seen[0].first_byte_s
        return Quiet(silence_s=silence_s, lasted_s=lasted_s, whole=bool(seen) and seen[0].whole)

    async def _tabs(self) -> Tabs | None:
        """With a browser's number of connections; the server's own clock says who had to wait."""
        plain = {"Accept-Encoding": "identity"}
        async with self._client(CONNECTIONS) as client:
            flows = await asyncio.gather(
                *(_watch(client, self._plan(), plain) for _ in range(TABS)),
                return_exceptions=True,
            )
        seen = [flow for flow in flows if isinstance(flow, Flow) and flow.arrivals]
        ends = [flow.arrivals[-1].sent_at for flow in seen if flow.whole]
        if not ends:
            return None
        waited = sum(flow.arrivals[0].sent_at >= min(ends) for flow in seen)
        return Tabs(opened=TABS, waited=waited)

    async def _leave(self) -> Leave | None:
        """None where the server never heard of it, or cannot be asked."""
        plan = self._plan(phase="quiet", silence_s=60.0)
        async with self._client() as asking:
            stay = asyncio.create_task(self._flow(plan))
            try:
                if await self._until(asking, plan, {"open"}, OPEN_S) is None:
                    return None
            finally:
                stay.cancel()
                with suppress(asyncio.CancelledError, httpx.TransportError):
                    await stay
            noticed_s = await self._until(asking, plan, {"left", "finished"}, WATCHED_S)
            return Leave(noticed_s=noticed_s, watched_s=WATCHED_S)

    async def _until(
        self, client: httpx.AsyncClient, plan: Plan, states: set[str], within_s: float
    ) -> float | None:
        """How long it took, None if it took too long."""
        begun_s = time.monotonic()
        while (waited_s := time.monotonic() - begun_s) < within_s:
            with suppress(httpx.HTTPError, ValueError):
                reply = await client.get("/diag/report", params=plan.query)
                if reply.json().get("state") in states:
                    return waited_s
            await asyncio.sleep(POLL_S)
        return None

    async def _half_close(self, heartbeat_s: float) -> HalfClose | None:
        if self._parts.scheme != "http":
            return None
        plan = self._plan(phase="quiet", silence_s=min(1.0, 0.4 * heartbeat_s))
        try:
            async with asyncio.timeout(CONNECT_S + GRACE_S):
                reader, writer = await asyncio.open_connection(
                    self._parts.hostname, self._parts.port or 80
                )
                try:
                    writer.write(
                        f"GET /diag/stream?{urlencode(plan.query)} HTTP/1.1\r\n"
                        f"Host: {self._host}\r\nAccept: text/event-stream\r\n"
                        f"Authorization: Bearer {self._ticket}\r\n\r\n".encode()
                    )
                    await writer.drain()
                    data = await reader.read(65536)
                    writer.write_eof()
                    # A chunk of length 0 ends it where the connection is kept.
                    while b'"end"' not in data and (more := await reader.read(65536)):
                        data += more
                finally:
                    writer.close()
        except (OSError, TimeoutError):
            return None
        return "kept" if b'"end"' in data else "closed"


async def _watch(client: httpx.AsyncClient, plan: Plan, headers: dict[str, str]) -> Flow:
    """One stream from the request to its end, however that comes."""
    watcher = _Watcher(plan)
    query, extensions = plan.query, {"trace": watcher.trace}
    with suppress(TimeoutError):
        async with asyncio.timeout(CONNECT_S + 2 * plan.duration_s + GRACE_S):
            try:
                async with client.stream(
                    "GET", "/diag/stream", params=query, headers=headers, extensions=extensions
                ) as reply:
                    watcher.headers(reply)
                    async for chunk in reply.aiter_raw():
                        watcher.feed(chunk)
            except httpx.TransportError:
                if watcher.reply is None:
                    raise
    return watcher.flow()


class _Watcher:
    """Writes down when what came."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._asked_at = time.time()
        self._begun_s = time.monotonic()
        self._connected_s = self._headers_s = 0.0
        self.reply: httpx.Response | None = None
        self._first = self._rest = b""
        self._arrivals: list[Arrival] = []
        self._hello: dict[str, Any] = {}
        self._whole = False

    def _now_s(self) -> float:
        return time.monotonic() - self._begun_s

    async def trace(self, event: str, _: Any) -> None:
        """httpx's; called for each step of a request."""
        if event in ("connection.connect_tcp.complete", "connection.start_tls.complete"):
            self._connected_s = self._now_s()

    def headers(self, reply: httpx.Response) -> None:
        self.reply, self._headers_s = reply, self._now_s()

    def feed(self, chunk: bytes) -> None:
        now_s = self._now_s()
        if len(self._first) < 4:
            self._first = (self._first + chunk)[:4]
        *frames, self._rest = (self._rest + chunk).split(b"\n\n")
        for frame in frames:
            data = frame.rpartition(b"data: ")[2]
            try:
                said = json.loads(data)
                arrival = Arrival(said["n"], len(frame) + 2, said["at"], now_s)
            except (ValueError, KeyError, TypeError):
                continue  # packed, or a page of somebody else's: it is no frame of ours
            self._arrivals.append(arrival)
            if said["kind"] == "hello":
                self._hello = {name: said[name] for name in said if name != "pad"}
            self._whole |= said["kind"] == "end"

    def flow(self) -> Flow:
        reply = self.reply
        return Flow(
            status=reply.status_code if reply else 0,
            http_version=reply.http_version if reply else "",
            headers={name.lower(): value for name, value in reply.headers.items()} if reply else {},
            gap_ms=self._plan.gap_ms,
            asked_at=self._asked_at,
            connected_s=self._connected_s,
            headers_s=self._headers_s,
            arrivals=tuple(self._arrivals),
            whole=self._whole,
            first_bytes=self._first,
            hello=self._hello,
        )
