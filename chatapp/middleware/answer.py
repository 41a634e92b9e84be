"""Django's whole answer to a request, for a door beside it that may replace it by a stream."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from chatapp.middleware.asgi_types import Message, Send


class Answer:
    """Django's whole answer to a POST, kept until it is known what to do with it."""

    def __init__(self) -> None:
        self._start: Any = None
        self._body: list[bytes] = []

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._start = message
        elif message["type"] == "http.response.body":
            self._body.append(message["body"])

    @property
    def status(self) -> int:
        """0 when there is none: the client went before its body had come."""
        return int(self._start["status"]) if self._start else 0

    @property
    def body(self) -> bytes:
        return b"".join(self._body)

    @property
    def location(self) -> list[tuple[bytes, bytes]]:
        return [(k, v) for k, v in self._start["headers"] if k.lower() == b"location"]

    async def relay(self, send: Send) -> None:
        if self._start:
            await send(self._start)
            await send({"type": "http.response.body", "body": self.body})
