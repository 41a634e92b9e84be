"""What no client of ours sends, over bare sockets to real servers: always an answer or an end.

Never a 5xx, never a traceback in it, never silence; and the site answers people afterwards.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.site import Site, ask, until_status

pytestmark = pytest.mark.process

PATIENCE_S = 15.0
"""Above BODY_TIMEOUT_S of these sites and a server's own patience, for a busy machine."""
PAGES = ("/", "/api/chats", "{events}", "/admin/", "/static/", "/static/chat/page.js;x", "/ws")
HOSTS: Mapping[str, bytes] = {
    "stranger": b"evil.example",
    "two": b"127.0.0.1\r\nhost: evil.example",
    "user": b"a@127.0.0.1",
    "port": b"127.0.0.1:-1",
    "bracket": b"[::1",
    "bytes": b"\xff\xfe",
    "empty": b"",
    "long": b"a" * 9000,
}
HEADERS: Mapping[str, bytes] = {
    "cookie of 8 KB": b"cookie: sessionid=" + b"a" * 8192,
    "cookie of bytes": b'cookie: sessionid=\xff\x80; =; csrftoken="\\0; messages=\xe4',
    "websocket": b"upgrade: websocket\r\nconnection: upgrade\r\nsec-websocket-version: 13\r\n"
    b"sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==",
    "h2c": b"upgrade: h2c\r\nconnection: upgrade, http2-settings\r\nhttp2-settings: AAMAAABk",
    "forwarded": b"x-forwarded-for: \xff, 999.9.9.9\r\nx-forwarded-proto: javascript",
    "range": b"range: bytes=-99999999999999999999,1-0\r\nif-modified-since: \xff",
    "credential": b"authorization: Bearer " + b"a" * 9000,
    "two credentials": b"authorization: Basic x\r\nauthorization: \xff\xfe",
    "expect": b"expect: 999",
}
CURSORS = (b"9" * 4000, b"-1", b"1e5", b"\xb2", b"1\r\nlast-event-id: 2", b"9" * 19)
BODIES: Mapping[str, bytes] = {
    "depth": b'{"model":"scripted","input":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "NaN": b'{"model":"scripted","input":"x","temperature":NaN}',
    "infinity": b'{"model":"scripted","input":"x","temperature":1e999}',
    "many digits": b'{"model":"scripted","input":"x","max_output_tokens":' + b"9" * 5000 + b"}",
    "NaN inside": b'{"model":"scripted","input":"say:1","metadata":{"a":[NaN,1e400]}}',
    "depth inside": b'{"model":"scripted","input":"say:1","metadata":{"a":'
    + b"[" * 900
    + b"]" * 900
    + b"}}",
    "half a character": b'{"model":"scripted","input":"\\ud800"}',
    "keys twice": b'{"model":"scripted","input":"say:1","input":5,"input":"say:1"}',
    "bytes": b'{"model":"scripted","input":"\xff\xfe"}',
    "patience": b'{"model":"scripted","input":"say:1","on_disconnect":'
    b'{"cancel_after_s":1e308,"leave_after_s":99999999999999999999}}',
    "nothing": b"",
    "null": b"null",
}
CHUNKED = b"transfer-encoding: chunked\r\n"
FRAMINGS: Mapping[str, bytes] = {
    "both lengths": CHUNKED + b"content-length: 5\r\n\r\n0\r\n\r\nGET /admin/ HTTP/1.1\r\n\r\n",
    "two lengths": b"content-length: 5\r\ncontent-length: 6\r\n\r\n12345",
    "negative length": b"content-length: -1\r\n\r\n",
    "long length": b"content-length: 99999999999999999999999\r\n\r\n",
    "unknown coding": b"transfer-encoding: xchunked\r\n\r\n0\r\n\r\n",
    "space": b"transfer-encoding : chunked\r\n\r\n0\r\n\r\n",
    "folded": b"transfer-encoding:\r\n chunked\r\n\r\n0\r\n\r\n",
    "no size": CHUNKED + b"\r\nzz\r\nab\r\n0\r\n\r\n",
    "size too large": CHUNKED + b"\r\nffffffffffffffffff\r\nab",
    "more than its size": CHUNKED + b"\r\n3\r\nabcdef\r\n0\r\n\r\n",
    "less than its size": CHUNKED + b"\r\n9\r\nab\r\n0\r\n\r\n",
    "half a body": b"content-length: 50\r\n\r\n{}",
}
UNENDING: Mapping[str, frozenset[str]] = {
    # Twisted waits for the rest of a body, and for a first line, as long as something comes.
    "daphne": frozenset(
        {
            *("framing: half a body", "framing: less than its size", "framing: long length"),
            *("framing: size too large", "TLS"),
        }
    ),
    "uvicorn": frozenset(),
}
BARE: Mapping[str, bytes] = {
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "HTTP/0.9": b"GET /\r\n\r\n",
    "HTTP/9.9": b"GET / HTTP/9.9\r\nhost: 127.0.0.1\r\n\r\n",
    "asterisk": b"OPTIONS * HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n",
    "no path": b"GET http://127.0.0.1 HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n",
    "tunnel": b"CONNECT evil:80 HTTP/1.1\r\nhost: evil:80\r\nconnection: close\r\n\r\n",
    "NUL": b"GET / HTTP/1.1\r\nhost: 127.0.0.1\r\nx: \x00\r\n\r\n",
}


def requests(events: str, key: str) -> Iterator[tuple[str, bytes]]:
    credential = b"authorization: Bearer " + key.encode()
    host, close = b"host: 127.0.0.1", b"connection: close"

    def lines(*parts: bytes) -> bytes:
        return b"\r\n".join(parts) + b"\r\n"

    for page in PAGES:
        path = page.format(events=events).encode()
        for method in (b"OPTIONS", b"HEAD", b"PUT", b"TRACE", b"PROPFIND", b"FOO", b"get", b"POST"):
            said = lines(method + b" " + path + b" HTTP/1.1", host, close, credential)
            yield f"{method.decode()} {page}", said + b"content-length: 0\r\n\r\n"
        get = b"GET " + path + b" HTTP/1.1"
        yield f"HTTP/1.0 {page}", lines(b"GET " + path + b" HTTP/1.0", b"")
        many = b"&".join(b"a%d=%%ff%%00" % n for n in range(1500))
        asked = b"GET " + path + b"?" + many + b" HTTP/1.1"
        yield f"parameters {page}", lines(asked, host, close, credential, b"")
        for name, value in HOSTS.items():
            yield f"host {name} {page}", lines(get, b"host: " + value, close, credential, b"")
        for name, header in HEADERS.items():
            ends = () if b"connection:" in header else (close,)
            yield f"{name} {page}", lines(get, host, *ends, header, b"")
    for cursor in CURSORS:
        asked = b"GET " + events.encode() + b" HTTP/1.1"
        header = b"last-event-id: " + cursor
        yield f"cursor {cursor[:8]!r}", lines(asked, host, close, credential, header, b"")
    post = lines(b"POST /api/responses HTTP/1.1", host, close, credential)
    post += b"content-type: application/json\r\n"
    for name, body in BODIES.items():
        yield f"body: {name}", post + b"content-length: %d\r\n\r\n" % len(body) + body
    for name, framing in FRAMINGS.items():
        yield f"framing: {name}", post + framing
    yield from BARE.items()


async def exchange(port: int, data: bytes) -> bytes:
    """Everything until the server closes. Raises TimeoutError if it says and does nothing."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    received = b""
    try:
        async with asyncio.timeout(PATIENCE_S):
            writer.write(data)
            while chunk := await reader.read(65536):
                received += chunk
    except ConnectionError:
        pass  # closed with something unread
    except TimeoutError:
        if not received:  # else it was answered, and is kept for another request
            raise
    finally:
        writer.close()
    return received


@pytest.mark.parametrize("server", ["uvicorn", "daphne"])
async def test_odd_requests_are_answered_or_ended(tmp_path: Path, server: str) -> None:
    env = {"BODY_TIMEOUT_S": "2"}
    async with Site(tmp_path, server=server, env=env) as site, site.client() as client:
        port = int(site.urls[0].rsplit(":", 1)[1])
        rid = await ask(client, "say:2")
        await until_status(client, rid, "completed")
        slots, wrong = asyncio.Semaphore(8), []

        async def look(name: str, data: bytes) -> None:
            async with slots:
                try:
                    answer = await exchange(port, data)
                except TimeoutError:
                    if name not in UNENDING[server]:
                        wrong.append((name, "no end"))
                    return
            codes = re.findall(rb"HTTP/1\.[01] (\d{3})", answer)
            if any(code.startswith(b"5") for code in codes):
                wrong.append((name, codes[0].decode()))
            # With DEBUG Django's own page of a refused host has one; it is for a developer's eyes.
            elif b"Traceback" in answer and b"DisallowedHost" not in answer:
                wrong.append((name, "a traceback"))

        events = f"/api/responses/{rid}/events"
        await asyncio.gather(*(look(*request) for request in requests(events, site.key)))
        assert not wrong
        rid = await ask(client, "say:2")
        await until_status(client, rid, "completed")
