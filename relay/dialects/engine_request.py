"""What requests to engines share: one text goes in, so a question must be nothing but text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from relay.dialects.openai_chat_request import build as chat_request
from relay.dialects.openai_chat_request import headers as bearer_headers
from relay.errors import ErrorKind, UpstreamError

if TYPE_CHECKING:
    from relay.dialects.dialect import Asked

__all__ = ["bearer_headers", "extra_of", "limit_of", "text_messages"]


def limit_of(asked: Asked) -> int | None:
    """The most tokens the answer may have; None: as many as the engine has room for."""
    limits = (asked.request.max_output_tokens, asked.model.max_output_tokens)
    return min((limit for limit in limits if limit is not None), default=None)


def extra_of(asked: Asked) -> dict[str, Any]:
    """`extra_body` without what is meant for the chat template."""
    return {k: v for k, v in asked.model.extra_body.items() if k != "chat_template_kwargs"}


def text_messages(asked: Asked) -> list[dict[str, Any]]:
    """The conversation as chat templates take it, every content a text.

    Raises UpstreamError invalid_request for pictures and tools: an engine that is given a prompt
    sees no picture, and answers with its model's own notation of a call instead of a call.
    """
    if asked.request.tools:
        raise UpstreamError(
            ErrorKind.INVALID_REQUEST,
            "This model cannot be given tools: it is asked with a bare prompt.",
        )
    messages: list[dict[str, Any]] = chat_request(asked)["messages"]
    return [{**message, "content": _text(message.get("content"))} for message in messages]


def _text(content: object) -> str:
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else [content]
    texts = [part.get("text") if isinstance(part, dict) else part for part in parts]
    if not all(isinstance(text, str) for text in texts):
        raise UpstreamError(
            ErrorKind.INVALID_REQUEST,
            "This model takes nothing but text: the question has a part that is none.",
        )
    return "".join(str(text) for text in texts)
