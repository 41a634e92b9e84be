"""What the chunks of one OpenAI chat answer mean (corpus rules 5, 6, 8, 9 and 11).

Text leaves as it arrives. Only three things wait: half a character for its other half, tool calls
for the end of the stream, and usage that comes with every token, which would double the log.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from relay.dialects.answer_texts import AnswerTexts
from relay.dialects.finish_reasons import finish_reason
from relay.dialects.openai_chat_chunk import (
    Choice,
    Chunk,
    Delta,
    UsualChunk,
    content_texts,
    has_reasoning,
    reasoning_signatures,
    reasoning_text,
    usage_counts,
)
from relay.dialects.provider_errors import error_in
from relay.dialects.tool_arguments import arguments_in
from relay.dialects.usage_snapshot import UsageSnapshot, count_of
from relay.errors import ErrorKind
from relay.events import (
    Event,
    Notice,
    PartMeta,
    ReasoningDelta,
    RefusalDelta,
    TextDelta,
)
from relay.wire.surrogates import sanitized

if TYPE_CHECKING:
    from relay.dialects.tool_calls import ToolCallAssembler
    from relay.errors import UpstreamError
    from relay.states import FinishReason


class Answer(AnswerTexts):
    """Choice 0 of a completion. `secret` is kept out of error messages."""

    def __init__(self, tools: ToolCallAssembler, secret: str | None) -> None:
        super().__init__()
        self.tools = tools
        self.usage = UsageSnapshot()
        self.seen = False
        """Any chunk that means something has come."""
        self.reason: FinishReason | None = None
        self._secret = secret

    def usual_chunk(self, chunk: UsualChunk, events: list[Event]) -> None:
        """`chunk` for the chunk that holds nothing but text."""
        self.seen = True
        delta = chunk.choices[0].delta
        if reasoning := delta.reasoning_content or delta.reasoning:
            self.add_text(ReasoningDelta, reasoning, events)
        if content := delta.content:
            if self.halves is None:
                self.output = True
                events.append(TextDelta(delta=content))
            else:
                self.add_text(TextDelta, content, events)

    def chunk(self, chunk: Chunk, events: list[Event]) -> UpstreamError | None:
        """Append what `chunk` means to `events`; return the failure it reports, if it does."""
        failure: UpstreamError | None = None
        if chunk.choices is not None:
            self.seen = True
            for choice in chunk.choices:
                if not choice.index:  # choice 0, or the only one: we never ask for more
                    failure = self._choice(choice, events) or failure
        if chunk.error:
            failure = error_in(chunk.error, secret=self._secret)
        if chunk.prompt_progress is not None:
            self.seen = True
            events.extend(progress_notice(chunk.prompt_progress))
        if chunk.usage is not None:
            self.usage.take(usage_counts(chunk.usage))
        elif chunk.x_groq is not None:
            self.usage.take(usage_counts(chunk.x_groq))
        if self.usage.unsent and (self.reason or not chunk.choices):
            events.extend(self.usage.event())
        return failure

    def _choice(self, choice: Choice, events: list[Event]) -> UpstreamError | None:
        delta = choice.delta
        if delta is None and not self.output:
            delta = choice.message
        if delta is not None:
            self._delta(delta, events)
        if choice.usage is not None:
            self.usage.take(usage_counts(choice.usage))
        if choice.error:
            return error_in(choice.error, secret=self._secret)
        if choice.finish_reason is not None:
            reason = finish_reason(choice.finish_reason)
            if isinstance(reason, ErrorKind):
                return error_in({"type": reason.value})
            self.reason = reason or self.reason
        return None

    def _delta(self, delta: Delta, events: list[Event]) -> None:
        if has_reasoning(delta):
            self.add_text(ReasoningDelta, reasoning_text(delta), events)
            events += [
                PartMeta(part=0, kind="signature", data=sanitized(detail))
                for detail in reasoning_signatures(delta)
            ]
        if delta.content:
            for is_reasoning, text in content_texts(delta.content):
                self.add_text(ReasoningDelta if is_reasoning else TextDelta, text, events)
        if isinstance(delta.refusal, str):
            self.add_text(RefusalDelta, delta.refusal, events)
        if delta.tool_calls is not None:
            self._tool_calls(delta.tool_calls, events)
        elif delta.function_call is not None:
            self._tool_calls([{"index": 0, "function": delta.function_call}], events)

    def _tool_calls(self, entries: object, events: list[Event]) -> None:
        for entry in entries if isinstance(entries, list) else ():
            if not isinstance(entry, dict):
                continue
            self.output = True
            index, call_id, function = entry.get("index"), entry.get("id"), entry.get("function")
            function = function if isinstance(function, dict) else {}
            name, arguments = function.get("name"), function.get("arguments")
            events += self.tools.feed(
                index if isinstance(index, (int, float, str)) and index != "" else None,
                call_id if isinstance(call_id, str) else "",
                name if isinstance(name, str) else "",
                arguments_in(arguments),
            )
            if extra := entry.get("extra_content"):  # Gemini wants its thought signature back
                at = self.tools.last_index()
                data = {"call_id": self.tools.call_id(at), "extra_content": extra}
                events.append(PartMeta(part=at, kind="signature", data=sanitized(data)))


def progress_notice(progress: object) -> Iterator[Notice]:
    """llama.cpp's `return_progress`: how much of the prompt has been read."""
    if isinstance(progress, dict):
        done, total = count_of(progress.get("processed")), count_of(progress.get("total"))
        if done is not None and total is not None:
            message = f"Reading the prompt, {done} of {total} tokens"
            yield Notice(code="reading_prompt", message=message, done=done, total=total)
