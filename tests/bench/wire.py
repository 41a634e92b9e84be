"""Small HTTP/1.1 and SSE helpers shared by the load client and the reference pump."""

from __future__ import annotations

import bisect
import re

STAMP = re.compile(rb"\[(\d+):(\d+)(?::end)?\]")
END = b":end]"


class Dechunker:
    """Incremental decoder of a chunked body; feed() returns the payload bytes decoded so far."""

    def __init__(self):
        self.buffer = b""
        self.left = 0  # payload bytes still due in the current chunk
        self.skip = 0  # CRLF bytes still due after the current chunk
        self.finished = False

    def feed(self, data):
        out = []
        data = self.buffer + data if self.buffer else data
        pos, size = 0, len(data)
        while pos < size and not self.finished:
            if self.left:
                take = min(self.left, size - pos)
                out.append(data[pos : pos + take])
                pos += take
                self.left -= take
                if not self.left:
                    self.skip = 2
            elif self.skip:
                take = min(self.skip, size - pos)
                pos += take
                self.skip -= take
            else:
                eol = data.find(b"\r\n", pos)
                if eol < 0:
                    break
                self.left = int(data[pos:eol].split(b";")[0], 16)
                pos = eol + 2
                if not self.left:
                    self.finished = True
        self.buffer = data[pos:]
        return b"".join(out)


def split_response(raw):
    """(status, lowercase header block, body offset), or (0, b"", len(raw)) when there is no full head yet."""
    end = raw.find(b"\r\n\r\n")
    if end < 0:
        return 0, b"", len(raw)
    head = raw[:end]
    return int(head[9:12]), head.lower(), end + 4


def timed_tokens(pieces, times):
    """Decode the raw reads of one response.

    Returns (status, body, [(seq, sent_ns, received_ns)]): the receive time of a
    token is that of the read which completed its stamp.
    """
    raw = b"".join(pieces)
    status, head, start = split_response(raw)
    ends, total = [], 0
    for piece in pieces:
        total += len(piece)
        ends.append(total)
    if b"transfer-encoding: chunked" in head:
        parts, body_ends, raw_ends = [], [], []
        pos, size, done = start, len(raw), 0
        while pos < size:
            eol = raw.find(b"\r\n", pos)
            if eol < 0:
                break
            length = int(raw[pos:eol].split(b";")[0] or b"0", 16)
            if not length:
                break
            part = raw[eol + 2 : eol + 2 + length]
            parts.append(part)
            done += len(part)
            body_ends.append(done)
            raw_ends.append(eol + 2 + len(part))
            pos = eol + 2 + length + 2
        body = b"".join(parts)

        def raw_end(offset):
            i = bisect.bisect_left(body_ends, offset)
            return raw_ends[i] - (body_ends[i] - offset)
    else:
        body = raw[start:]

        def raw_end(offset):
            return start + offset

    found = [
        (int(m[1]), int(m[2]), times[bisect.bisect_left(ends, raw_end(m.end()))])
        for m in STAMP.finditer(body)
    ]
    return status, body, found
