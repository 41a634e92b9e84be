"""Joining streamed fragments into whole tool calls (corpus rules 6 and 7), for chat dialects.

Fragments name their call by index, by id, by both or by neither; each provider has its own idea of
what may be left out or repeated. A call is announced when its name is known and its arguments
begin, shown fragment by fragment, and read only when the stream is over.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from relay.dialects.tool_arguments import BadArguments, parse_arguments
from relay.events import (
    Event,
    ToolCallCompleted,
    ToolCallDelta,
    ToolCallInvalid,
    ToolCallStarted,
)
from relay.wire.surrogates import SurrogateJoiner, joined, sanitized

CallIndex = int | float | str
"""A provider's index is a name, whatever its type; 1.0 is 1."""

MAX_CALLS: Final = 1000
"""Of one answer. A call that nobody has named yet is seen by no other limit, and costs ten times
the bytes that make it; what comes after this many is added to the last one, which spoils it."""


@dataclass(slots=True)
class _Call:
    index: int
    """Ours: the order of first appearance. A provider's may be missing, sparse or used twice."""
    call_id: str = ""
    name: str = ""
    fragments: list[str] = field(default_factory=list)
    whole: dict[str, Any] | None = None
    """Arguments that came as an object instead of text."""
    shown: int = 0
    """How many fragments have left as deltas."""
    closed: bool = False
    halves: SurrogateJoiner = field(default_factory=SurrogateJoiner)


class ToolCallAssembler:
    """Fragments in, events out; `close` or `abandon` ends it.

    `new_id_prefix` begins the ids of calls that the provider gave none.
    """

    def __init__(self, new_id_prefix: str) -> None:
        self._new_id_prefix = new_id_prefix
        self._calls: list[_Call] = []
        self._by_index: dict[CallIndex, _Call] = {}
        self._by_id: dict[str, _Call] = {}
        self._announced = 0
        """How many calls have been; always the first ones."""

    def __bool__(self) -> bool:
        """Whether there was any call."""
        return bool(self._calls)

    def feed(
        self,
        index: CallIndex | None,
        call_id: str,
        name: str,
        arguments: str | dict[str, Any] | None,
    ) -> list[Event]:
        """One fragment; an empty `call_id` or `name` is one that was not given."""
        if index is not None and type(arguments) is str and not (call_id or name):
            call = self._by_index.get(index)
            if call is not None and call.index < self._announced and not call.closed:
                # Nearly every fragment: more of a call that is shown already.
                self._last = call
                return self._more(call, arguments)
        return list(self._feed(index, call_id, name, arguments))

    def _more(self, call: _Call, arguments: str) -> list[Event]:
        text = call.halves.feed(arguments)
        if not text:
            return []
        call.whole = None
        call.fragments.append(text)
        call.shown += 1
        return [ToolCallDelta(index=call.index, delta=text)]

    def _feed(
        self,
        index: CallIndex | None,
        call_id: str,
        name: str,
        arguments: str | dict[str, Any] | None,
    ) -> Iterator[Event]:
        call_id, name = joined(call_id), joined(name)
        call = self._find(index, call_id, name)
        if call.closed:  # it has been read: nothing that comes late can change it
            return
        if call_id and not call.call_id:
            call.call_id = call_id
            self._by_id.setdefault(call_id, call)
        if name and name != call.name:
            call.name += name
        if isinstance(arguments, dict):
            # An empty one says nothing yet: the arguments may follow as text.
            if arguments:
                call.whole = {joined(key): sanitized(value) for key, value in arguments.items()}
                call.fragments.append(json.dumps(call.whole, ensure_ascii=False))
        elif arguments:
            text = call.halves.feed(arguments)
            if text:
                call.whole = None  # nor is an object whole that text goes on from
                call.fragments.append(text)
        # Names may be cut in two, so a call is announced no sooner than its arguments begin, or
        # those of one that appeared after it: a reader takes their order from the announcements.
        if len(call.fragments) > call.shown and self._all_named_up_to(call):
            yield from self._show(call)

    def last_index(self) -> int:
        """Our index of the call that the last fragment belonged to."""
        return self._last.index

    def call_id(self, index: int) -> str:
        return self._id_of(self._calls[index])

    def close_one(self, index: CallIndex, whole: dict[str, Any] | None = None) -> Iterator[Event]:
        """The wire says that the call with this index of the provider's is complete.

        `whole` are arguments that came at another place, for a call that got no fragments.
        """
        call = self._by_index.get(index)
        if call is not None and not call.closed:
            if whole and not call.fragments:
                yield from self.feed(index, "", "", whole)
            yield from self._close(call)

    def close(self) -> Iterator[Event]:
        """The stream ended as it should: read the arguments of every call."""
        for call in self._calls:
            if not call.closed:
                yield from self._close(call)

    def abandon(self) -> Iterator[Event]:
        """The stream broke off: a call that the wire did not close is not whole."""
        for call in self._calls:
            if not call.closed:
                self._flush(call)
                yield from self._show(call)
                yield self._invalid(call, "".join(call.fragments), "unclosed")

    def _close(self, call: _Call) -> Iterator[Event]:
        call.closed = True
        self._flush(call)
        yield from self._show(call)
        raw = "".join(call.fragments)
        try:
            arguments = _checked(call.whole) if call.whole is not None else parse_arguments(raw)
        except BadArguments as bad:
            yield self._invalid(call, raw, bad.error)
        else:
            yield ToolCallCompleted(
                index=call.index, call_id=self._id_of(call), name=call.name, arguments=arguments
            )

    # -- which call a fragment belongs to ---------------------------------------------------------
    _last: _Call

    def _find(self, index: CallIndex | None, call_id: str, name: str) -> _Call:
        call: _Call | None
        if index is not None:
            call = self._by_index.get(index)
            # An index used again with a new id and a name is a new call; a new id alone is noise
            # (some servers make one up for every chunk).
            if call is None or (name and call_id and call.call_id not in ("", call_id)):
                call = self._by_index[index] = self._new()
        elif call_id:
            call = self._by_id.get(call_id) or self._new()
        elif name or not self._calls:
            call = self._new()
        else:
            call = self._last
        self._last = call
        return call

    def _new(self) -> _Call:
        if len(self._calls) == MAX_CALLS:
            return self._calls[-1]
        call = _Call(len(self._calls))
        self._calls.append(call)
        return call

    # -- events -----------------------------------------------------------------------------------
    def _all_named_up_to(self, call: _Call) -> bool:
        return all(earlier.name for earlier in self._calls[self._announced : call.index + 1])

    def _show(self, call: _Call) -> Iterator[Event]:
        for new in self._calls[self._announced : call.index + 1]:
            self._announced += 1
            yield ToolCallStarted(index=new.index, call_id=self._id_of(new), name=new.name)
        for fragment in call.fragments[call.shown :]:
            yield ToolCallDelta(index=call.index, delta=fragment)
        call.shown = len(call.fragments)

    def _flush(self, call: _Call) -> None:
        if rest := call.halves.finish():
            call.fragments.append(rest)

    def _id_of(self, call: _Call) -> str:
        return call.call_id or f"{self._new_id_prefix}{call.index}"

    def _invalid(self, call: _Call, raw: str, error: str) -> ToolCallInvalid:
        return ToolCallInvalid(
            index=call.index, call_id=self._id_of(call), name=call.name, raw=raw, error=error
        )


def _checked(arguments: dict[str, Any]) -> dict[str, Any]:
    """Arguments that came as an object, held to the same rules as text."""
    return parse_arguments(json.dumps(arguments))
