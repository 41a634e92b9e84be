"""What a scripted provider says, in the dialect that its path belongs to."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from itertools import count
from typing import Any, Final

PATHS: Final[Mapping[str, str]] = {
    "openai-chat": "/v1/chat/completions",
    "anthropic": "/v1/messages",
    "openai-responses": "/v1/responses",
}
STOP_REASONS: Final = {"stop": "end_turn", "length": "max_tokens"}


class Speech:
    """One answer. What it returns is the text of event-stream frames, or of a JSON body."""

    def __init__(self, path: str, body: Mapping[str, Any]) -> None:
        known = [name for name, end in PATHS.items() if path.endswith(end.removeprefix("/v1"))]
        self._dialect = known[0] if known else "openai-chat"
        self._body = body
        self._numbers = count()
        self._said: list[str] = []

    def say(self, text: str) -> str:
        opening = "" if self._said else "".join(self._opening())
        self._said.append(text)
        match self._dialect:
            case "anthropic":
                delta = {"type": "text_delta", "text": text}
                return opening + self._named("content_block_delta", index=0, delta=delta)
            case "openai-responses":
                return opening + self._named(
                    "response.output_text.delta", **self._place, delta=text
                )
            case _:
                return opening + _frame(_chunk({"content": text}))

    def end(self, reason: str) -> str:
        opening = "" if self._said else "".join(self._opening())
        return opening + "".join(self._ending(reason))

    def whole(self, text: str) -> dict[str, Any]:
        """The same answer as it comes when nobody asked for a stream."""
        self._said.append(text)
        match self._dialect:
            case "anthropic":
                content = [{"type": "text", "text": text}]
                return self._message(content) | {"stop_reason": "end_turn"}
            case "openai-responses":
                return self._response("completed")
            case _:
                message = {"role": "assistant", "content": text}
                choice = {"index": 0, "message": message, "finish_reason": "stop"}
                return {"object": "chat.completion", "choices": [choice], "usage": self._usage()}

    # -- pieces -----------------------------------------------------------------------------------
    _place: Final[Mapping[str, Any]] = {"item_id": "msg_1", "output_index": 0, "content_index": 0}

    def _opening(self) -> Iterator[str]:
        if self._dialect == "anthropic":
            yield self._named("message_start", message=self._message([]))
            block = {"type": "text", "text": ""}
            yield self._named("content_block_start", index=0, content_block=block)
        elif self._dialect == "openai-responses":
            yield self._named("response.created", response=self._response("in_progress"))
            item = self._item("") | {"content": []}
            yield self._named("response.output_item.added", output_index=0, item=item)
            part = {"type": "output_text", "text": "", "annotations": []}
            yield self._named("response.content_part.added", **self._place, part=part)

    def _ending(self, reason: str) -> Iterator[str]:
        if self._dialect == "anthropic":
            yield self._named("content_block_stop", index=0)
            delta = {"stop_reason": STOP_REASONS[reason], "stop_sequence": None}
            yield self._named(
                "message_delta", delta=delta, usage={"output_tokens": len(self._said)}
            )
            yield self._named("message_stop")
        elif self._dialect == "openai-responses":
            text = "".join(self._said)
            yield self._named("response.output_text.done", **self._place, text=text)
            yield self._named("response.output_item.done", output_index=0, item=self._item(text))
            yield self._named("response.completed", response=self._response("completed"))
        else:
            yield _frame(_chunk({}, reason))
            if (self._body.get("stream_options") or {}).get("include_usage"):
                yield _frame({"choices": [], "usage": self._usage()})
            yield "data: [DONE]\n\n"

    def _named(self, name: str, /, **fields: Any) -> str:
        if self._dialect == "openai-responses":
            fields = {"sequence_number": next(self._numbers), **fields}
        return f"event: {name}\n" + _frame({"type": name, **fields})

    def _message(self, content: list[Any]) -> dict[str, Any]:
        usage = {"input_tokens": self._asked_words(), "output_tokens": len(self._said)}
        return {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": "scripted-1",
            "content": content,
            "stop_reason": None,
            "stop_sequence": None,
            "usage": usage,
        }

    def _item(self, text: str) -> dict[str, Any]:
        part = {"type": "output_text", "text": text, "annotations": []}
        return {"id": "msg_1", "type": "message", "role": "assistant", "content": [part]}

    def _response(self, status: str) -> dict[str, Any]:
        done = status == "completed"
        words, said = self._asked_words(), len(self._said)
        usage = {"input_tokens": words, "output_tokens": said, "total_tokens": words + said}
        return {
            "id": "resp_1",
            "object": "response",
            "status": status,
            "model": "scripted-1",
            "output": [self._item("".join(self._said))] if done else [],
            "usage": usage if done else None,
        }

    def _usage(self) -> dict[str, int]:
        words, said = self._asked_words(), len(self._said)
        return {"prompt_tokens": words, "completion_tokens": said, "total_tokens": words + said}

    def _asked_words(self) -> int:
        asked = self._body.get("messages") or self._body.get("input") or []
        return sum(len(str(message.get("content", "")).split()) for message in asked)


def spoken(dialect: str, *texts: str) -> bytes:
    """A whole answer's event stream, for tests that cut, pack or spoil it themselves."""
    speech = Speech(PATHS[dialect], {})
    return ("".join(speech.say(text) for text in texts) + speech.end("stop")).encode()


def _frame(data: Any) -> str:
    return f"data: {json.dumps(data, ensure_ascii=False)}\n\n"


def _chunk(delta: dict[str, Any], finish_reason: str | None = None) -> dict[str, Any]:
    return {
        "id": "chatcmpl-scripted",
        "object": "chat.completion.chunk",
        "created": 1735700000,
        "model": "scripted-1",
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish_reason}],
    }
