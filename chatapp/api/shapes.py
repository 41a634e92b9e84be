"""What clients send and get: the types that parse a body are also its documentation (OpenAPI)."""

from __future__ import annotations

import math
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast
from uuid import UUID

from ninja import Schema
from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from chatapp.services import Settings, limits
from chatapp.turns import pictures_of
from relay import Disconnect

if TYPE_CHECKING:
    from chatapp.models import Message

Seconds = Annotated[float, Field(ge=0, le=7 * 86_400, allow_inf_nan=False)]
"""A week at most: longer than any log lives while nobody has acknowledged its end."""

MAX_TURNS = 4096


class Strict(BaseModel):
    """A name that we do not know is a mistake to be told, not a wish to be ignored.

    Ninja's own Schema would look at each object as if it were one of Django's, 0.1 ms per request.
    """

    model_config = ConfigDict(extra="forbid")


class Patience(Strict):
    cancel_after_s: Seconds | None = None
    """Seconds without a viewer after the last one was lost; null: the server's default."""
    leave_after_s: Seconds | None = None
    """Seconds without a viewer after the last one left on purpose; null: the server's default."""


OnDisconnect = Literal["continue", "cancel"] | Patience


def to_disconnect(wanted: OnDisconnect | None) -> Disconnect | None:
    match wanted:
        case None:
            return None
        case "continue":
            return limits.CONTINUE
        case "cancel":
            return limits.CANCEL
        case Patience():
            default = limits.patience()
            return Disconnect(
                cancel_after_s=_first(wanted.cancel_after_s, default.cancel_after_s),
                leave_after_s=_first(wanted.leave_after_s, default.leave_after_s),
            )


def _first(wanted: float | None, default: float | None) -> float | None:
    return default if wanted is None or math.isnan(wanted) else wanted


class InputMessage(Strict):
    """One turn. A tool's result is {role: "tool", call_id, output}."""

    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | list[dict[str, Any]] | None = None
    tool_calls: list[dict[str, Any]] | None = None
    call_id: str | None = None
    output: str | None = None

    @model_validator(mode="after")
    def _says_what_its_role_says(self) -> InputMessage:
        if self.role == "tool":
            if self.call_id is None or self.output is None:
                raise ValueError("a tool message has call_id and output")
        elif self.content is None and not (self.role == "assistant" and self.tool_calls):
            raise ValueError("a message has content")
        return self


class ResponseIn(Strict):
    model: str
    input: str | list[InputMessage]
    instructions: str | None = None
    max_output_tokens: Annotated[int, Field(ge=1, le=10_000_000)] | None = None
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    stop: str | Annotated[list[str], Field(max_length=16)] = []
    tools: Annotated[list[dict[str, Any]], Field(max_length=128)] = []
    on_disconnect: OnDisconnect | None = None
    metadata: dict[str, Any] = {}

    @field_validator("input", mode="before")
    @classmethod
    def _is_no_flood(cls, value: Any) -> Any:
        # 100,000 turns of one letter kept the loop for 0.7 s before any limit of bytes was met.
        if isinstance(value, list) and len(value) > MAX_TURNS:
            raise ValueError(f"at most {MAX_TURNS} messages are taken")
        return value

    def messages(self) -> list[dict[str, Any]]:
        if isinstance(self.input, str):
            return [{"role": "user", "content": self.input}]
        return [message.model_dump(exclude_none=True) for message in self.input]

    def stops(self) -> list[str]:
        stops = [self.stop] if isinstance(self.stop, str) else self.stop
        return [stop for stop in stops if stop]


class Accepted(Schema):
    id: str
    status: str
    events_url: str
    cancel_url: str


DoubleText = Literal["reject", "queue", "interrupt"]
"""What a message does that comes while an answer of its chat is being written."""


class ChatIn(Strict):
    """What is not named stays as it is. Null: as it was at first, where that is something."""

    double_text: DoubleText | None = None
    title: Annotated[str, Field(max_length=10_000)] | None = None
    model: str | None = None
    system_prompt: Annotated[str, Field(max_length=200_000)] | None = None
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    max_output_tokens: Annotated[int, Field(ge=1, le=10_000_000)] | None = None
    pinned: bool | None = None

    def settings(self) -> Settings:
        given = {name: getattr(self, name) for name in self.model_fields_set}
        nothing: Settings = {"temperature": None, "max_output_tokens": None}
        if given.get("system_prompt", "") is None:
            nothing["system_prompt"] = ""
        kept = {name: value for name, value in given.items() if value is not None}
        cleared = {name: value for name, value in nothing.items() if name in given}
        return cast("Settings", cleared | kept)


class ChatOut(Schema):
    id: UUID
    title: str
    titled_by: str
    """`words` (of the first message, until a model names it), `model`, `person` or `nobody`."""
    model: str
    double_text: str
    system_prompt: str
    temperature: float | None
    max_output_tokens: int | None
    pinned: bool
    created_at: datetime
    updated_at: datetime


class ContextOut(Schema):
    sentence: str
    """What would be left out, for a person; empty for nothing."""


class ChatList(Schema):
    data: list[ChatOut]
    has_more: bool


class MessageIn(Strict):
    text: str
    images: Annotated[list[str], Field(max_length=64)] = []
    """Data URLs in base64 of PNG, JPEG, WebP or GIF; for models that see them."""
    model: str | None = None
    on_disconnect: OnDisconnect | None = None


class EditIn(Strict):
    text: str
    model: str | None = None
    """Null: the chat's."""
    on_disconnect: OnDisconnect | None = None


class RewriteIn(Strict):
    text: str


class RegenerateIn(Strict):
    model: str | None = None
    """Null: the one that was asked before."""
    on_disconnect: OnDisconnect | None = None


class ContinueIn(Strict):
    on_disconnect: OnDisconnect | None = None


class Shown(Schema):
    chat_id: UUID
    message_id: int
    """The last message of the branch that is shown now."""


class MessageOut(Schema):
    id: int
    parent_id: int | None
    """The message before it; null: it begins the conversation."""
    position: int
    role: str
    text: str
    images: list[str]
    """Addresses of its pictures; they answer a session."""
    created_at: datetime
    response_id: str | None
    status: str | None
    reason: str | None


def message_out(message: Message) -> MessageOut:
    response = message.response
    return MessageOut(
        id=message.pk,
        parent_id=message.parent_id,
        position=message.position,
        role=message.role,
        text=message.text,
        images=[picture.url for picture in pictures_of(message)],
        created_at=message.created_at,
        response_id=response.pk if response else None,
        status=response.status if response else None,
        reason=(response.reason or None) if response else None,
    )


class MessageList(Schema):
    data: list[MessageOut]
    has_more: bool


class MessageAccepted(Accepted):
    message_id: int
    """Of what this call has made: the person's message, or, where it wrote none, the answer's."""
    question_id: int
    """Of the person's message that is answered."""
    answer_id: int
