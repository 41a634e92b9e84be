"""What the official Python SDKs read from recorded bytes, through a mock transport.

OpenAI's are read event by event, as its documentation shows: text is the deltas joined, a tool call
is what its index collected (chat), or its item when that is done (Responses). Anthropic's own
accumulator is used.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeVar

import anthropic
import httpx2
import openai

if TYPE_CHECKING:
    from relay.dialects.recording import Recording

Reading = tuple[str, list[tuple[str, Any]]]
"""Text, and (name, arguments) of the tool calls; arguments parsed where they are JSON."""

Client = TypeVar("Client", openai.OpenAI, anthropic.Anthropic)


class _Reads(httpx2.SyncByteStream):
    def __init__(self, recording: Recording) -> None:
        self._recording = recording

    def __iter__(self) -> Iterator[bytes]:
        yield from self._recording.chunks
        if self._recording.end == "reset":
            raise httpx2.ReadError("the recorded connection was reset")


def _client(kind: type[Client], recording: Recording) -> Client:
    def answer(request: httpx2.Request) -> httpx2.Response:
        headers = {"content-type": recording.content_type or "text/event-stream"}
        return httpx2.Response(recording.http_status, headers=headers, stream=_Reads(recording))

    transport = httpx2.Client(transport=httpx2.MockTransport(answer))
    return kind(api_key="k", base_url="http://judge/v1", max_retries=0, http_client=transport)


def parsed(arguments: Any) -> Any:
    try:
        return json.loads(arguments)
    except (TypeError, ValueError):
        return arguments


def chat(recording: Recording) -> Reading:
    text, calls = "", dict[int, list[str]]()
    with (
        _client(openai.OpenAI, recording) as client,
        client.chat.completions.create(model="m", messages=[], stream=True) as stream,
    ):
        for chunk in stream:
            for choice in chunk.choices:
                if choice.index:
                    continue
                text += choice.delta.content or ""
                for part in choice.delta.tool_calls or ():
                    call = calls.setdefault(part.index, ["", ""])
                    if part.function:
                        call[0] += part.function.name or ""
                        call[1] += part.function.arguments or ""
    return text, [(name, parsed(arguments)) for name, arguments in calls.values()]


def responses(recording: Recording) -> Reading:
    text, calls = "", dict[int, tuple[str, Any]]()
    with (
        _client(openai.OpenAI, recording) as client,
        client.responses.create(model="m", input="hi", stream=True) as stream,
    ):
        for event in stream:
            if event.type == "response.output_text.delta":
                text += event.delta
            elif event.type == "response.output_item.done" and event.item.type == "function_call":
                calls[event.output_index] = (event.item.name, parsed(event.item.arguments))
    return text, [calls[index] for index in sorted(calls)]


def messages(recording: Recording) -> Reading:
    with (
        _client(anthropic.Anthropic, recording) as client,
        client.messages.stream(model="m", messages=[], max_tokens=1) as stream,
    ):
        content = stream.get_final_message().content
    text = "".join(block.text for block in content if block.type == "text")
    return text, [(block.name, block.input) for block in content if block.type == "tool_use"]


JUDGES: Final[Mapping[str, Callable[[Recording], Reading]]] = {
    "openai_chat": chat,
    "openai_responses": responses,
    "anthropic": messages,
}
