"""What was asked: the request as the application stores it and a worker runs it."""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec import Struct

IMAGE_PARTS: Final = frozenset({"image_url", "input_image", "image"})
"""Types of parts that are pictures, in the words of the three dialects that take them."""


class Disconnect(Struct, frozen=True, kw_only=True):
    """What the absence of viewers means (law 8). Both None: `continue`. Both 0: `cancel`."""

    cancel_after_s: float | None = None
    """Seconds after the last viewer was lost."""
    leave_after_s: float | None = None
    """Seconds after the last viewer left on purpose."""


class GenerationRequest(Struct, frozen=True, kw_only=True):
    """Everything a generation needs, without secrets.

    `messages` are {role, content} in the order of the conversation, `content` a text or a list of
    parts as OpenAI chat takes them, pictures ({type: "image_url", image_url: {url}}) among them; a
    tool's output is {role: "tool", call_id, output}.
    """

    response_id: str
    model: str
    """A name of the models file."""
    messages: list[dict[str, Any]]
    created_at: str
    """RFC 3339, UTC. The wall clock of the response runs from here."""
    instructions: str | None = None
    max_output_tokens: int | None = None
    temperature: float | None = None
    stop: list[str] = msgspec.field(default_factory=list)
    tools: list[dict[str, Any]] = msgspec.field(default_factory=list)
    on_disconnect: Disconnect = Disconnect()
    continues: bool = False
    """The last message is an answer that broke off, and what is asked for is its rest alone."""
    traceparent: str | None = None
    """Of the request that asked (W3C Trace Context), where traces are kept."""

    @property
    def has_images(self) -> bool:
        contents = (message.get("content") for message in self.messages)
        parts = (part for content in contents if isinstance(content, list) for part in content)
        return any(isinstance(part, dict) and part.get("type") in IMAGE_PARTS for part in parts)

    def to_json(self) -> bytes:
        return msgspec.json.encode(self)

    @classmethod
    def from_json(cls, data: bytes | str) -> GenerationRequest:
        """Raises msgspec.ValidationError for anything `to_json` did not write."""
        return msgspec.json.decode(data, type=cls)
