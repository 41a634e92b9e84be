"""Providers in miniature: what an answer is, and how each dialect puts it on the wire."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from relay.states import FinishReason

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Said:
    """A run of visible text, or of reasoning, in the pieces it is sent in."""

    pieces: tuple[str, ...]
    reasoning: bool = False


@dataclass(frozen=True, slots=True)
class Called:
    """A tool call, its arguments in the pieces they are sent in."""

    call_id: str
    name: str
    pieces: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Answer:
    items: tuple[Said | Called, ...]
    reason: FinishReason
    input_tokens: int
    cached_tokens: int
    output_tokens: int


@dataclass(frozen=True, slots=True)
class Writing:
    """Liberties that a server takes with the event stream and with JSON."""

    line_end: str = "\n"
    space: str = " "
    escaped: bool = False
    keep_alives: bool = False
    names: bool = True
    """Events are named where their dialect has names."""

    def frame(self, value: Json | str, name: str = "") -> str:
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=self.escaped)
        lines = [f"event:{self.space}{name}"] if name and self.names else []
        lines += [f"data:{self.space}{text}", ""]
        if self.keep_alives:
            lines.insert(0, ": still here")
        return "".join(line + self.line_end for line in lines)


def openai_chat(answer: Answer, write: Writing) -> Iterator[str]:
    def chunk(reason: str | None = None, **delta: object) -> str:
        choice = {"index": 0, "delta": delta, "finish_reason": reason}
        return write.frame({"object": "chat.completion.chunk", "choices": [choice]})

    yield chunk(role="assistant", content="")
    calls = 0
    for item in answer.items:
        if isinstance(item, Said):
            member = "reasoning_content" if item.reasoning else "content"
            for piece in item.pieces:
                yield chunk(**{member: piece})
            continue
        function = {"name": item.name, "arguments": ""}
        yield chunk(tool_calls=[{"index": calls, "id": item.call_id, "function": function}])
        for piece in item.pieces:
            yield chunk(tool_calls=[{"index": calls, "function": {"arguments": piece}}])
        calls += 1
    yield chunk(answer.reason.value)
    usage = {
        "prompt_tokens": answer.input_tokens,
        "completion_tokens": answer.output_tokens,
        "prompt_tokens_details": {"cached_tokens": answer.cached_tokens},
    }
    yield write.frame({"choices": [], "usage": usage})
    yield write.frame("[DONE]")


_ANTHROPIC_REASONS = {"stop": "end_turn", "length": "max_tokens", "tool_calls": "tool_use"}


def anthropic(answer: Answer, write: Writing) -> Iterator[str]:
    def event(name: str, **members: object) -> str:
        return write.frame({"type": name, **members}, name)

    usage = {
        "input_tokens": answer.input_tokens - answer.cached_tokens,
        "cache_read_input_tokens": answer.cached_tokens,
        "output_tokens": 0,
    }
    yield event("message_start", message={"content": [], "stop_reason": None, "usage": usage})
    for index, item in enumerate(answer.items):
        if isinstance(item, Called):
            block: Json = {"type": "tool_use", "id": item.call_id, "name": item.name, "input": {}}
            kind, member = "input_json_delta", "partial_json"
        else:
            member = "thinking" if item.reasoning else "text"
            block, kind = {"type": member, member: ""}, f"{member}_delta"
        yield event("content_block_start", index=index, content_block=block)
        yield event("ping")
        for piece in item.pieces:
            delta = {"type": kind, member: piece}
            yield event("content_block_delta", index=index, delta=delta)
        yield event("content_block_stop", index=index)
    delta = {"stop_reason": _ANTHROPIC_REASONS[answer.reason.value]}
    yield event("message_delta", delta=delta, usage={"output_tokens": answer.output_tokens})
    yield event("message_stop")


def openai_responses(answer: Answer, write: Writing) -> Iterator[str]:
    def event(name: str, **members: object) -> str:
        name = f"response.{name}"
        return write.frame({"type": name, **members}, name)

    yield event("created", response={"status": "in_progress", "output": []})
    output: list[Json] = []
    for index, item in enumerate(answer.items):
        whole = "".join(item.pieces)
        at: Json = {"output_index": index, "item_id": f"item_{index}"}
        part: Json = {"content_index": 0}
        if isinstance(item, Called):
            called = {"type": "function_call", "call_id": item.call_id, "name": item.name}
            done: Json = {**called, "arguments": whole}
            begun: Json = {**called, "arguments": ""}
            kind, final = "function_call_arguments", {"arguments": whole}
            part = {}
        elif item.reasoning:
            kind, final, part = "reasoning_summary_text", {"text": whole}, {"summary_index": 0}
            begun = {"type": "reasoning", "summary": []}
            done = {**begun, "summary": [{"type": "summary_text", "text": whole}]}
        else:
            kind, final = "output_text", {"text": whole}
            begun = {"type": "message", "role": "assistant", "content": []}
            done = {**begun, "content": [{"type": "output_text", "text": whole}]}
        begun, done = {"id": at["item_id"], **begun}, {"id": at["item_id"], **done}
        yield event("output_item.added", output_index=index, item=begun)
        for piece in item.pieces:
            yield event(f"{kind}.delta", **at, **part, delta=piece)
        yield event(f"{kind}.done", **at, **part, **final)
        yield event("output_item.done", output_index=index, item=done)
        output.append(done)
    short = answer.reason is FinishReason.LENGTH
    end = "incomplete" if short else "completed"
    usage = {
        "input_tokens": answer.input_tokens,
        "input_tokens_details": {"cached_tokens": answer.cached_tokens},
        "output_tokens": answer.output_tokens,
    }
    details = {"reason": "max_output_tokens"} if short else None
    response = {"status": end, "output": output, "usage": usage, "incomplete_details": details}
    yield event(end, response=response)


ENCODERS: dict[str, Callable[[Answer, Writing], Iterator[str]]] = {
    "openai-chat": openai_chat,
    "anthropic": anthropic,
    "openai-responses": openai_responses,
}
