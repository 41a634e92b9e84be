"""What a log means: the one function from events to the state a person sees (law 13).

`static/chat/fold.js` is this module's twin; both are held to `tests/fixtures/fold/`.
`fold(all) == apply(fold(first k), rest)` for every k, so a page with a snapshot and its cursor
needs only the events after it.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256
from typing import Any

import msgspec
from msgspec import Struct

from relay import events as ev
from relay.states import Status, end_status


class ToolCall(Struct, frozen=True, kw_only=True, omit_defaults=False):
    """One call as far as it is known. `raw` collects fragments until it is completed or invalid."""

    index: int
    call_id: str
    name: str
    raw: str = ""
    arguments: dict[str, Any] | None = None
    error: str | None = None


class Timings(Struct, frozen=True, kw_only=True):
    """RFC 3339, UTC; null until it happened."""

    created_at: str | None = None
    started_at: str | None = None
    first_token_at: str | None = None
    first_text_at: str | None = None
    """Until then it reasoned, if it did."""
    ended_at: str | None = None


class Snapshot(Struct, frozen=True, kw_only=True):
    """A response as of event `seq` of the log written under `epoch`."""

    id: str = ""
    status: Status = Status.QUEUED
    reason: str | None = None
    finish_reason: str | None = None
    model: str = ""
    upstream_model: str | None = None
    attempt: int = 0
    seq: int = 0
    epoch: int = 0
    text: str = ""
    reasoning: str = ""
    refusal: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    meta: tuple[ev.PartMeta, ...] = ()
    usage: ev.UsageCount | None = None
    notice: ev.Notice | None = None
    """The last notice, until content or the end replaces it."""
    timings: Timings = Timings()
    error: ev.Error | None = None
    text_sha256: str | None = None

    @property
    def ended(self) -> bool:
        return self.text_sha256 is not None

    def to_json(self) -> bytes:
        return msgspec.json.encode(self)

    @classmethod
    def from_json(cls, data: bytes | str) -> Snapshot:
        """Also one of a later version. Raises msgspec.ValidationError for what is none."""
        try:
            return msgspec.json.decode(data, type=cls)
        except msgspec.ValidationError:
            loose = msgspec.json.decode(data)
            if not isinstance(loose, dict) or loose.get("text_sha256") is None:
                raise
            return msgspec.convert({**loose, "status": end_status(str(loose["status"]))}, cls)


class Folder:
    """Applies events one after the other; `snapshot()` is what they mean so far.

    Texts are kept as lists of deltas and joined when asked for: a snapshot a token would make
    an answer of n tokens cost n².
    """

    def __init__(self, base: Snapshot | None = None) -> None:
        self._base = base or Snapshot()
        self._text: list[str] = [self._base.text]
        self._reasoning: list[str] = [self._base.reasoning]
        self._refusal: list[str] = [self._base.refusal]
        self._calls = {call.index: call for call in self._base.tool_calls}
        self._fragments: dict[int, list[str]] = {i: [c.raw] for i, c in self._calls.items()}
        self._changes: dict[str, Any] = {}

    def apply(self, event: ev.Event, epoch: int | None = None) -> None:
        """Add one event; `epoch` is its log entry's, where the reader knows it."""
        changes = self._changes
        changes["seq"] = event.seq
        if epoch is not None:
            changes["epoch"] = epoch
        match event:
            case ev.TextDelta():
                self._text.append(event.delta)
            case ev.ReasoningDelta():
                self._reasoning.append(event.delta)
            case ev.RefusalDelta():
                self._refusal.append(event.delta)
            case ev.Created():
                changes |= {"id": event.response_id, "model": event.model}
                self._time(created_at=event.created_at)
            case ev.Started():
                changes |= {
                    "status": Status.IN_PROGRESS,
                    "upstream_model": event.upstream_model,
                    "attempt": event.attempt,
                    "epoch": event.epoch,
                }
                self._time(started_at=event.at or None)
            case ev.ToolCallStarted():
                self._calls[event.index] = ToolCall(
                    index=event.index, call_id=event.call_id, name=event.name
                )
                self._fragments[event.index] = []
            case ev.ToolCallDelta():
                # A snapshot has no place for fragments of a call that was never started: keeping
                # them here would make the meaning depend on where a reader came in.
                if event.index in self._calls:
                    self._fragments.setdefault(event.index, []).append(event.delta)
            case ev.ToolCallCompleted() | ev.ToolCallInvalid():
                self._close_call(event)
            case ev.PartMeta():
                changes["meta"] = (*self._meta(), event)
            case ev.Usage():
                changes["usage"] = event.count()
            case ev.Ended():
                self._end(event)
            case _:
                pass
        if isinstance(event, ev.Notice):
            changes["notice"] = event
            if event.model is not None:
                changes["model"] = event.model
        elif isinstance(event, (*ev.CONTENT, ev.Ended)):
            changes["notice"] = None

    def snapshot(self) -> Snapshot:
        calls = []
        for index, call in self._calls.items():
            raw = "".join(self._fragments.get(index, ()))
            calls.append(msgspec.structs.replace(call, raw=raw) if raw != call.raw else call)
        return msgspec.structs.replace(
            self._base,
            **self._changes,
            text="".join(self._text),
            reasoning="".join(self._reasoning),
            refusal="".join(self._refusal),
            tool_calls=tuple(calls),
        )

    def _meta(self) -> tuple[ev.PartMeta, ...]:
        meta: tuple[ev.PartMeta, ...] = self._changes.get("meta", self._base.meta)
        return meta

    def _time(self, **times: str | None) -> None:
        timings = self._changes.get("timings", self._base.timings)
        self._changes["timings"] = msgspec.structs.replace(timings, **times)

    def _close_call(self, event: ev.ToolCallCompleted | ev.ToolCallInvalid) -> None:
        if isinstance(event, ev.ToolCallCompleted):
            call = ToolCall(
                index=event.index,
                call_id=event.call_id,
                name=event.name,
                arguments=event.arguments,
            )
        else:
            call = ToolCall(
                index=event.index, call_id=event.call_id, name=event.name, error=event.error
            )
            self._fragments[event.index] = [event.raw]
        self._calls[event.index] = call

    def _end(self, event: ev.Ended) -> None:
        self._changes |= {
            "status": end_status(event.status),
            "reason": event.reason,
            "finish_reason": event.finish_reason,
            "error": event.error,
            "usage": event.usage or self._changes.get("usage", self._base.usage),
            "text_sha256": event.text_sha256,
            "epoch": event.epoch,
        }
        self._time(
            first_token_at=event.first_token_at,
            first_text_at=event.first_text_at,
            ended_at=event.at,
        )


def fold(events: Iterable[ev.Event]) -> Snapshot:
    """The meaning of a whole log, or of its beginning."""
    return apply(Snapshot(), events)


def apply(snapshot: Snapshot, events: Iterable[ev.Event]) -> Snapshot:
    """The meaning of `snapshot` and the events after it."""
    folder = Folder(snapshot)
    for event in events:
        folder.apply(event)
    return folder.snapshot()


def text_sha256(text: str) -> str:
    """Lower hex over the UTF-8 of all text deltas; the hash of "" when there were none."""
    return sha256(text.encode()).hexdigest()


def ended_event(snapshot: Snapshot) -> ev.Ended:
    """Rebuild the terminal event of an ended response, for viewers served from the record.

    Raises ValueError when `snapshot` has not ended.
    """
    if snapshot.text_sha256 is None:
        raise ValueError("the response has not ended")
    return ev.Ended(
        seq=snapshot.seq,
        status=snapshot.status,
        reason=snapshot.reason,
        epoch=snapshot.epoch,
        finish_reason=snapshot.finish_reason,
        error=snapshot.error,
        usage=snapshot.usage,
        text_sha256=snapshot.text_sha256,
        first_token_at=snapshot.timings.first_token_at,
        first_text_at=snapshot.timings.first_text_at,
        at=snapshot.timings.ended_at,
    )
