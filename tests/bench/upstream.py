#!/usr/bin/env python3
"""Deterministic fake LLM provider for load and latency tests.

Speaks two streaming dialects over plain HTTP/1.1 with chunked bodies:

    POST /v1/chat/completions   OpenAI Chat Completions SSE
    POST /v1/messages           Anthropic Messages SSE

The shape of a response is chosen by a spec that is read from the model name
or, when the model name is not a spec, from the last user message:

    bench:ttft=200,itl=20,tokens=400,bytes=4

    ttft     ms from the request to the first content delta        (default 100)
    itl      ms between deltas; fractions allowed; 0 = no pacing   (default 20)
    tokens   content deltas in the response                        (default 100)
    bytes    padding bytes that follow the stamp in each delta     (default 4)
    burst    this many first deltas are sent without pacing        (default 0)
    id       name under which GET /stats?id=NAME reports the stream
    drop     close the connection abruptly after this many deltas
    stall    go silent after this many deltas (connection kept)
    status   answer with this HTTP status instead of a stream
    watch    1: look before every paced delta whether the peer has closed, instead of when the loop
             comes to it; `last_ns` of the stream is then the last delta that could be read

Every content delta is the text "[SEQ:NS]" plus padding, where NS is
CLOCK_MONOTONIC at the moment the delta was made, so any process on the same
machine can compute how long the delta took to reach it, whatever re-encoding
happened in between. The last delta reads "[SEQ:NS:end]".

    GET  /stats          totals, and how late the pacing itself ran
    GET  /stats?id=NAME  one stream: start, deltas sent, how and when it ended
    POST /reset          clear totals and per-stream records
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import socket
import time
from urllib.parse import parse_qs, urlsplit

import uvloop

now_ns = time.monotonic_ns
TCP_ESTABLISHED = 1  # tcpi_state, the first byte of struct tcp_info
PAD = b"abcdefghijklmnopqrstuvwxyz" * 512
HEAD = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n"
    b"Cache-Control: no-cache\r\nTransfer-Encoding: chunked\r\n\r\n"
)


def chunk(body):
    return b"%x\r\n%b\r\n" % (len(body), body)


def parse_spec(text):
    spec = {
        "ttft": 100.0,
        "itl": 20.0,
        "tokens": 100,
        "bytes": 4,
        "burst": 0,
        "id": None,
        "drop": None,
        "stall": None,
        "status": 200,
        "watch": 0,
    }
    for part in text.strip().split()[0].removeprefix("bench:").split(","):
        key, eq, value = part.partition("=")
        if not eq or key not in spec:
            continue
        if key == "id":
            spec[key] = value
        elif key in ("ttft", "itl"):
            spec[key] = float(value)
        else:
            spec[key] = int(value)
    return spec


class OpenAI:
    def __init__(self, sid, spec, body):
        meta = (
            b'data: {"id":"chatcmpl-%b","object":"chat.completion.chunk","created":1700000000,'
            b'"model":"bench","choices":[{"index":0,"delta":' % sid
        )
        self.open = meta + b'{"role":"assistant","content":""},"finish_reason":null}]}\n\n'
        self.pre = meta + b'{"content":"'
        self.post = PAD[: spec["bytes"]] + b'"},"finish_reason":null}]}\n\n'
        self.close = meta + b'{},"finish_reason":"stop"}]}\n\n'
        options = body.get("stream_options") or {}
        if options.get("include_usage"):
            self.close += (
                b'data: {"id":"chatcmpl-%b","object":"chat.completion.chunk","created":1700000000,'
                b'"model":"bench","choices":[],"usage":{"prompt_tokens":1,"completion_tokens":%d,'
                b'"total_tokens":%d}}\n\n' % (sid, spec["tokens"], spec["tokens"] + 1)
            )
        self.close += b"data: [DONE]\n\n"


class Anthropic:
    def __init__(self, sid, spec, body):
        self.open = (
            b'event: message_start\ndata: {"type":"message_start","message":{"id":"msg_%b","type":"message",'
            b'"role":"assistant","model":"bench","content":[],"stop_reason":null,"stop_sequence":null,'
            b'"usage":{"input_tokens":1,"output_tokens":0}}}\n\n'
            b'event: content_block_start\ndata: {"type":"content_block_start","index":0,'
            b'"content_block":{"type":"text","text":""}}\n\n'
            b'event: ping\ndata: {"type":"ping"}\n\n' % sid
        )
        self.pre = (
            b'event: content_block_delta\ndata: {"type":"content_block_delta","index":0,'
            b'"delta":{"type":"text_delta","text":"'
        )
        self.post = PAD[: spec["bytes"]] + b'"}}\n\n'
        self.close = (
            b'event: content_block_stop\ndata: {"type":"content_block_stop","index":0}\n\n'
            b'event: message_delta\ndata: {"type":"message_delta","delta":{"stop_reason":"end_turn",'
            b'"stop_sequence":null},"usage":{"output_tokens":%d}}\n\n'
            b'event: message_stop\ndata: {"type":"message_stop"}\n\n' % spec["tokens"]
        )


class Provider:
    TICK = 1_000_000  # pacing resolution, ns

    def __init__(self):
        self.wheel = {}
        self.next_tick = now_ns() // self.TICK
        self.serial = 0
        self.active = set()
        self.reset()

    def reset(self):
        self.records = {}
        self.totals = {
            "started": 0,
            "completed": 0,
            "aborted": 0,
            "tokens": 0,
            "peak_active": 0,
            "connections": 0,
        }
        self.late = [0] * 1001  # pacing lateness, 1 ms buckets

    def at(self, due_ns, fn):
        tick = max(due_ns // self.TICK, self.next_tick)
        slot = self.wheel.get(tick)
        if slot is None:
            self.wheel[tick] = [fn]
        else:
            slot.append(fn)

    def tick(self):
        self.loop.call_later(0.001, self.tick)
        current = now_ns() // self.TICK
        pop = self.wheel.pop
        while self.next_tick <= current:
            tick, self.next_tick = self.next_tick, self.next_tick + 1
            slot = pop(tick, None)
            if slot:
                for fn in slot:
                    fn()

    def late_quantile(self, q):
        total = sum(self.late)
        seen = 0
        for ms, count in enumerate(self.late):
            seen += count
            if total and seen >= q * total:
                return ms
        return 0

    def stats(self, name=None):
        if name is not None:
            return self.records.get(name) or {}
        return {
            **self.totals,
            "active": len(self.active),
            "late_ms_p50": self.late_quantile(0.5),
            "late_ms_p99": self.late_quantile(0.99),
            "late_ms_max": max((i for i, c in enumerate(self.late) if c), default=0),
        }


class Connection:
    """One accepted socket. Writes go straight to the socket; only what does not fit is queued."""

    __slots__ = ("backlog", "closed", "closing", "fd", "inbox", "p", "sock", "stream")

    def __init__(self, provider, sock):
        self.p = provider
        self.sock = sock
        self.fd = sock.fileno()
        self.inbox = b""
        self.backlog = None
        self.closed = self.closing = False
        self.stream = None
        provider.loop.add_reader(self.fd, self.readable)

    def readable(self):
        try:
            data = self.sock.recv(65536)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self.close()
            return
        if self.stream is None:
            self.inbox += data
            self.try_request()

    def try_request(self):
        head, sep, rest = self.inbox.partition(b"\r\n\r\n")
        if not sep:
            return
        lines = head.decode("latin1").split("\r\n")
        method, target, _ = lines[0].split(" ", 2)
        headers = {}
        for line in lines[1:]:
            key, _, value = line.partition(":")
            headers[key.strip().lower()] = value.strip()
        if "chunked" in headers.get("transfer-encoding", ""):
            if not rest.endswith(b"0\r\n\r\n"):
                return
            body, left = b"", rest
            while left:
                size, _, left = left.partition(b"\r\n")
                length = int(size, 16)
                body, left = body + left[:length], left[length + 2 :]
        else:
            length = int(headers.get("content-length", 0))
            if len(rest) < length:
                return
            body = rest[:length]
        self.inbox = b""
        self.closing = headers.get("connection", "").lower() == "close"
        self.route(method, urlsplit(target), body)

    def route(self, method, url, body):
        if method == "GET" and url.path == "/stats":
            name = parse_qs(url.query).get("id", [None])[0]
            self.reply(200, self.p.stats(name))
        elif method == "POST" and url.path == "/reset":
            self.p.reset()
            self.reply(200, {})
        elif method == "GET":
            self.reply(200, {"object": "list", "data": [{"id": "bench", "object": "model"}]})
        elif method == "POST" and url.path.endswith("/chat/completions"):
            self.start(OpenAI, body)
        elif method == "POST" and url.path.endswith("/messages"):
            self.start(Anthropic, body)
        else:
            self.reply(404, {"error": {"message": "not found"}})

    def reply(self, status, obj):
        body = json.dumps(obj).encode()
        self.send(
            b"HTTP/1.1 %d Status\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b"
            % (status, len(body), body)
        )
        if self.closing:
            self.finish()

    def start(self, dialect, raw):
        body = json.loads(raw)
        text = str(body.get("model", ""))
        if "bench:" not in text:
            last = body["messages"][-1]["content"]
            text = last if isinstance(last, str) else last[-1].get("text", "")
        at = text.find("bench:")
        spec = parse_spec(text[at:] if at >= 0 else "bench:")
        if spec["status"] != 200:
            return self.reply(
                spec["status"], {"error": {"message": "injected", "type": "injected"}}
            )
        if not body.get("stream"):
            return self.reply(
                200,
                {
                    "id": "chatcmpl-x",
                    "object": "chat.completion",
                    "created": 1700000000,
                    "model": "bench",
                    "choices": [
                        {
                            "index": 0,
                            "finish_reason": "stop",
                            "message": {"role": "assistant", "content": "ok"},
                        }
                    ],
                    "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
                },
            )
        self.p.serial += 1
        self.stream = Stream(self, dialect(b"%d" % self.p.serial, spec, body), spec)

    def send(self, data):
        if self.closed:
            return
        if self.backlog is not None:
            self.backlog += data
            return
        try:
            sent = self.sock.send(data)
        except BlockingIOError:
            sent = 0
        except OSError:
            self.close()
            return
        if sent < len(data):
            self.backlog = bytearray(data[sent:])
            self.p.loop.add_writer(self.fd, self.writable)

    def writable(self):
        try:
            sent = self.sock.send(self.backlog)
        except BlockingIOError:
            return
        except OSError:
            self.close()
            return
        del self.backlog[:sent]
        if not self.backlog:
            self.backlog = None
            self.p.loop.remove_writer(self.fd)
            if self.closing and self.stream is None:
                self.close()
            elif self.stream is not None and self.stream.waiting:
                self.stream.waiting = False
                self.stream.pump()

    def left(self):
        """Has the peer closed? The kernel knows before this loop does."""
        state = self.sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)
        return state[0] != TCP_ESTABLISHED

    def finish(self):
        if self.backlog is None:
            self.close()

    def close(self):
        if self.closed:
            return
        self.closed = True
        if self.stream is not None:
            self.stream.aborted()
        if self.backlog is not None:
            self.p.loop.remove_writer(self.fd)
        self.p.loop.remove_reader(self.fd)
        self.sock.close()


class Stream:
    __slots__ = (
        "base",
        "burst",
        "c",
        "d",
        "last_ns",
        "p",
        "record",
        "seq",
        "spec",
        "step",
        "stop_at",
        "total",
        "waiting",
    )

    def __init__(self, conn, dialect, spec):
        self.c, self.p, self.d, self.spec = conn, conn.p, dialect, spec
        self.seq, self.total, self.burst, self.last_ns = 0, spec["tokens"], spec["burst"], None
        self.step = int(spec["itl"] * 1e6)
        self.waiting = False
        ends = [n for n in (spec["drop"], spec["stall"]) if n is not None]
        self.stop_at = min(ends) if ends else None
        start = now_ns()
        self.base = start + int(spec["ttft"] * 1e6)
        self.record = {
            "start_ns": start,
            "sent": 0,
            "state": "active",
            "end_ns": None,
            "ttft_ms": spec["ttft"],
            "itl_ms": spec["itl"],
            "burst": spec["burst"],
            "tokens": spec["tokens"],
        }
        if spec["id"]:
            self.p.records[spec["id"]] = self.record
        totals = self.p.totals
        totals["started"] += 1
        self.p.active.add(self)
        totals["peak_active"] = max(totals["peak_active"], len(self.p.active))
        conn.send(HEAD + chunk(dialect.open))
        self.p.at(self.base, self.pump if self.burst or not self.step else self.emit)

    def token(self):
        seq, self.last_ns = self.seq, now_ns()
        self.seq = seq + 1
        last = b":end]" if self.seq == self.total else b"]"
        body = b"%b[%d:%d%b%b" % (self.d.pre, seq, self.last_ns, last, self.d.post)
        return b"%x\r\n%b\r\n" % (len(body), body)

    def emit(self):
        """One paced delta."""
        if self.c.closed:
            return
        if self.spec["watch"] and self.c.left():
            return self.c.close()
        due = (
            self.base + (self.seq - self.burst) * self.step
            if self.burst
            else self.base + self.seq * self.step
        )
        late = (now_ns() - due) // 1_000_000
        self.p.late[late if 0 <= late < 1000 else (0 if late < 0 else 1000)] += 1
        self.c.send(self.token())
        self.p.totals["tokens"] += 1
        if self.seq >= self.total:
            self.complete()
        elif self.stop_at is not None and self.seq >= self.stop_at:
            self.stop()
        else:
            self.p.at(due + self.step, self.emit)

    def pump(self):
        """Unpaced deltas, as fast as the peer reads; hands over to emit() after a burst."""
        end = self.total if not self.step else min(self.burst, self.total)
        while self.seq < end and not self.c.closed:
            n = min(64, end - self.seq)
            for _ in range(n):
                self.c.send(self.token())
            self.p.totals["tokens"] += n
            if self.stop_at is not None and self.seq >= self.stop_at:
                return self.stop()
            if self.c.backlog is not None:
                self.waiting = True
                return
            if self.seq < end:
                self.p.loop.call_soon(self.pump)
                return
        if self.c.closed:
            return
        if self.seq >= self.total:
            self.complete()
        else:
            self.base = now_ns() + self.step
            self.p.at(self.base, self.emit)

    def stop(self):
        if self.spec["drop"] is not None and self.seq >= self.spec["drop"]:
            self.end("dropped")
            self.c.stream = None
            self.c.close()

    def complete(self):
        self.end("complete")
        self.c.stream = None
        self.c.send(chunk(self.d.close) + b"0\r\n\r\n")
        if self.c.closing:
            self.c.finish()

    def aborted(self):
        self.end("aborted")

    def end(self, state):
        self.record.update(state=state, end_ns=now_ns(), sent=self.seq, last_ns=self.last_ns)
        key = {"complete": "completed", "aborted": "aborted"}.get(state)
        if key:
            self.p.totals[key] += 1
        self.p.active.discard(self)


async def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=21001)
    parser.add_argument("--cpu", type=int, help="pin to this core")
    args = parser.parse_args()
    if args.cpu is not None:
        os.sched_setaffinity(0, {args.cpu})
    provider = Provider()
    provider.loop = loop = asyncio.get_running_loop()
    server = socket.socket()
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    server.bind((args.host, args.port))
    server.listen(4096)
    server.setblocking(False)

    def accept():
        for _ in range(256):
            try:
                sock, _ = server.accept()
            except BlockingIOError:
                return
            except OSError:
                return
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            provider.totals["connections"] += 1
            Connection(provider, sock)

    loop.add_reader(server.fileno(), accept)
    provider.tick()
    await asyncio.Event().wait()


if __name__ == "__main__":
    uvloop.run(main())
