"""Event streams: bytes to frames and back, exactly as WHATWG HTML 9.2.5 and 9.2.6 say.

The decoder ends lines at CR, LF and CRLF and nowhere else, decodes UTF-8 with replacement only once
a line is whole, and never keeps more than one unfinished event, which is bounded. What it refuses:
to dispatch an event that its blank line has not ended (`finish` hands that one over on request,
because some upstreams forget the line), and to interpret data.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from relay.errors import RelayError

MAX_EVENT_BYTES: Final = 4 * 1024 * 1024
"""An unfinished event may hold this much. Twice the bound of a whole log: an upstream that sends
more in one event sends something that could not be stored anyway."""

_BOM: Final = b"\xef\xbb\xbf"


class EventTooLarge(RelayError):
    """The peer sent more than the limit without finishing an event; the decoder is of no more use.

    `frames` are those that the same chunk completed before.
    """

    def __init__(self, limit_bytes: int, frames: list[Frame]) -> None:
        super().__init__(f"an event of the stream is larger than {limit_bytes} bytes")
        self.frames = frames


class Frame(Struct, frozen=True, gc=False):
    """One server-sent event. `id` and `event` are single-line."""

    data: str
    event: str = ""
    """Empty means `message`."""
    id: str = ""
    """When decoded: the last event id at dispatch, as the standard keeps it from event to event."""
    retry_ms: int | None = None
    """Reconnection time. When decoded: as known at dispatch; None as long as none was set."""
    field: str = ""
    """Not empty: no event but a line of this non-standard field, its value in `data`."""


class SseDecoder:
    """Feed it bytes as they come, get the frames that are now complete.

    `extra_fields` names fields the standard does not know and would ignore; a line of one of these
    comes out as a frame of its own with `field` set (llama.cpp reports errors as `error: {…}`).
    """

    def __init__(
        self,
        *,
        max_event_bytes: int = MAX_EVENT_BYTES,
        extra_fields: frozenset[bytes] = frozenset(),
    ) -> None:
        self._max_event_bytes = max_event_bytes
        self._extra_fields = extra_fields
        self._head: bytes | None = b""  # the first bytes, until it is known whether they are a BOM
        self._line: list[bytes] = []  # an unfinished line, joined once: += is quadratic
        self._line_bytes = 0
        self._after_cr = False  # a LF that follows belongs to the CR
        self._event = b""
        self._data: list[bytes] = []
        self._data_bytes = 0
        self._last_id = ""
        self._retry_ms: int | None = None
        self._idle = False  # nothing above is pending: the fast path may be tried

    def feed(self, chunk: bytes) -> list[Frame]:
        """Return the frames that `chunk` completes. Raises EventTooLarge."""
        # Fast path, doubled code on purpose: nearly every read from an upstream is one or a few
        # whole events of one `data: ` line each, some with their name before it, ended by LF. That
        # shape needs no line by line work and costs a third less than the slow path, which is right
        # for every input, this one too.
        if self._idle and chunk[-2:] == b"\n\n" and b"\r" not in chunk:
            end = len(chunk) - 2
            if chunk[:6] == b"data: ":
                if chunk.find(b"\n") == end:
                    data = chunk[6:end].decode("utf-8", "replace")
                    return [Frame(data, "", self._last_id, self._retry_ms)]
            elif chunk[:7] == b"event: ":
                at = chunk.find(b"\n")
                if chunk[at + 1 : at + 7] == b"data: " and chunk.find(b"\n", at + 1) == end:
                    name = chunk[7:at].decode("utf-8", "replace")
                    data = chunk[at + 7 : end].decode("utf-8", "replace")
                    return [Frame(data, name, self._last_id, self._retry_ms)]
            frames = self._whole_events(chunk)
            if frames is not None:
                return frames
        return self._slow(chunk)

    def finish(self) -> list[Frame]:
        """The stream is over: what it would have dispatched, had it ended with a blank line.

        The standard drops these. Use them only if their data is complete in itself.
        """
        frames: list[Frame] = []
        if self._line:
            line = b"".join(self._line)
            self._line = []
            self._field(line, frames)
        self._dispatch(frames)
        return frames

    def _whole_events(self, chunk: bytes) -> list[Frame] | None:
        frames = []
        last_id, retry_ms = self._last_id, self._retry_ms
        for block in chunk[:-2].split(b"\n\n"):
            name, data = b"", block
            if block[:7] == b"event: ":
                name, _, data = block.partition(b"\n")
            if data[:6] != b"data: " or b"\n" in data:
                return None
            text, event = data[6:].decode("utf-8", "replace"), name[7:].decode("utf-8", "replace")
            frames.append(Frame(text, event, last_id, retry_ms))
        return frames

    def _slow(self, chunk: bytes) -> list[Frame]:
        frames: list[Frame] = []
        if self._head is not None:
            chunk = self._without_bom(chunk)
        if self._after_cr and chunk:
            self._after_cr = False
            if chunk[:1] == b"\n":
                chunk = chunk[1:]
        if not chunk:
            return frames
        if b"\r" in chunk:
            # A CR at the end of the chunk ends its line now; only a LF still to come is swallowed.
            self._after_cr = chunk[-1:] == b"\r"
            chunk = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        lines = chunk.split(b"\n")
        rest = lines.pop()
        if lines:
            if self._line:
                lines[0] = b"".join((*self._line, lines[0]))
                self._line = []
            for line in lines:
                if line:
                    self._field(line, frames)
                else:
                    self._dispatch(frames)
            self._line_bytes = 0
        if rest:
            self._line.append(rest)
            self._line_bytes += len(rest)
        if self._line_bytes + self._data_bytes > self._max_event_bytes:
            raise EventTooLarge(self._max_event_bytes, frames)
        self._idle = not (self._after_cr or rest or self._data or self._event)
        return frames

    def _without_bom(self, chunk: bytes) -> bytes:
        head = (self._head or b"") + chunk
        if len(head) < len(_BOM) and _BOM.startswith(head):
            self._head = head
            return b""
        self._head = None
        return head.removeprefix(_BOM)

    def _field(self, line: bytes, frames: list[Frame]) -> None:
        """One line that is not blank (9.2.6, "process the field")."""
        if line[:5] == b"data:":
            self._data.append(line[6:] if line[5:6] == b" " else line[5:])
            self._data_bytes += len(line)
            return
        name, _, value = line.partition(b":")
        if value[:1] == b" ":
            value = value[1:]
        if name == b"data":  # without a colon
            self._data.append(value)
            self._data_bytes += len(line)
        elif name == b"event":
            self._event = value
        elif name == b"id":
            if b"\0" not in value:
                self._last_id = value.decode("utf-8", "replace")
        elif name == b"retry":
            # bytes.isdigit knows only ASCII digits, as the standard wants; str.isdigit knows more.
            # Longer than any sensible time is ignored: int() of a huge number is slow.
            if value.isdigit() and len(value) <= 15:
                self._retry_ms = int(value)
        elif name in self._extra_fields:
            frames.append(
                Frame(value.decode("utf-8", "replace"), id=self._last_id, field=name.decode())
            )

    def _dispatch(self, frames: list[Frame]) -> None:
        """A blank line (9.2.6, "dispatch the event")."""
        if self._data:
            frames.append(
                Frame(
                    b"\n".join(self._data).decode("utf-8", "replace"),
                    self._event.decode("utf-8", "replace"),
                    self._last_id,
                    self._retry_ms,
                )
            )
            self._data = []
            self._data_bytes = 0
        self._event = b""


def encode_frame(frame: Frame) -> bytes:
    """Serialise per WHATWG HTML 9.2.5; a newline in `data` becomes another data line.

    A CR or CRLF in `data` arrives as LF: the format cannot carry it. Raises ValueError for a CR, LF
    or NUL in `id` or `event`, which would forge fields, and for a lone surrogate.
    """
    for name, value in (("id", frame.id), ("event", frame.event)):
        if "\n" in value or "\r" in value or "\0" in value:
            raise ValueError(f"{name} must not contain CR, LF or NUL")
    head = ""
    if frame.retry_ms is not None:
        head = f"retry: {frame.retry_ms}\n"
    if frame.id:
        head += f"id: {frame.id}\n"
    if frame.event:
        head += f"event: {frame.event}\n"
    data = frame.data
    if "\r" in data:
        data = data.replace("\r\n", "\n").replace("\r", "\n")
    if "\n" in data:
        data = data.replace("\n", "\ndata: ")
    return f"{head}data: {data}\n\n".encode()
