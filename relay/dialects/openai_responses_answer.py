"""What the items of one OpenAI Responses answer mean (corpus rules 7 to 9 and 11).

Everything is said several times there: as deltas, as the whole text of a part, of an item and of
the final response. What was shown counts; a later whole adds its tail if it goes on from there, and
is ignored otherwise.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from relay.dialects.answer_texts import AnswerTexts, TextKind
from relay.dialects.tool_arguments import arguments_in
from relay.events import Event, PartMeta, ReasoningDelta, RefusalDelta, TextDelta
from relay.wire.surrogates import sanitized

if TYPE_CHECKING:
    from relay.dialects.tool_calls import ToolCallAssembler

Place = tuple[int, int, str]
"""Output index, index within the item, what stands there."""

UNNUMBERED: Final = 1_000_000
"""Items that only have an id are numbered by us from here on."""

_PARTS: Final[dict[str, tuple[str, TextKind]]] = {
    "output_text": ("output_text", TextDelta),
    "text": ("output_text", TextDelta),
    "refusal": ("refusal", RefusalDelta),
    "reasoning_text": ("reasoning_text", ReasoningDelta),
    "summary_text": ("summary_text", ReasoningDelta),
}
_ITEM_OF: Final = {
    "output_text": "message",
    "refusal": "message",
    "reasoning_text": "reasoning",
    "summary_text": "reasoning",
}


class Answer(AnswerTexts):
    """All items of a response, in the order in which they are spoken of."""

    def __init__(self, tools: ToolCallAssembler) -> None:
        super().__init__()
        self.tools = tools
        self._shown: dict[Place, list[str]] = {}
        self._call_ids: dict[int, object] = {}
        self._announced: dict[int, str] = {}
        """Arguments that a call began with: they count when no others come."""
        self._cited: dict[tuple[int, int], int] = {}
        """How many citations of a part have left."""
        self._signed: set[str] = set()
        self._places: dict[str, int] = {}
        """Output indexes of items, for events that name only the id."""
        self._done: set[int] = set()
        """Items that are complete."""
        self._moved: dict[int, int] = {}
        """Output indexes that were used again, and where the item that has one now is."""
        self._moves = 0

    def index_of(self, event: dict[str, Any]) -> int:
        """The output index that an event is about."""
        index, item = event.get("output_index"), event.get("item")
        item_id = item.get("id") if isinstance(item, dict) else event.get("item_id")
        if isinstance(index, int) and 0 <= index < UNNUMBERED:
            index = self.place_of(index)
            if isinstance(item_id, str):
                self.name_item(item_id, index)
            return index
        return self._places.setdefault(str(item_id), UNNUMBERED + len(self._places))

    def place_of(self, output_index: int) -> int:
        """Where the item with this output index is."""
        return self._moved.get(output_index, output_index)

    def name_item(self, item_id: str, index: int) -> None:
        """Later events may name the item by its id alone."""
        self._places.setdefault(item_id, index)

    def make_room(self, event: dict[str, Any], *, done: bool) -> None:
        """Some servers number every item 0: what begins where another item is gets a new place.

        Not told by the ids of items: one gateway makes up a new one for every event.
        """
        index, item = event.get("output_index"), event.get("item")
        if not (isinstance(index, int) and isinstance(item, dict)):
            return
        place = self.place_of(index)
        known = self._call_ids.get(place)
        is_other_call = item.get("type") == "function_call" and known not in (
            None,
            item.get("call_id"),
        )
        if is_other_call or (not done and place in self._done):
            self._moves += 1
            self._moved[index] = UNNUMBERED * 3 + self._moves

    def say(self, place: Place, kind: TextKind, text: str, events: list[Event]) -> None:
        """A delta of text."""
        if text:
            self._shown.setdefault(place, []).append(text)
            self.add_text(kind, text, events, place[0])

    def say_whole(self, place: Place, kind: TextKind, text: str, events: list[Event]) -> None:
        """The whole text of a part: what of it was not shown yet."""
        self.say(place, kind, self._tail(place, text), events)

    def part(self, index: int, at: int, part: object, events: list[Event]) -> None:
        """A part of an item with what it holds so far."""
        kind = part.get("type") if isinstance(part, dict) else None
        if not isinstance(part, dict) or not isinstance(kind, str) or kind not in _PARTS:
            return
        what, text_kind = _PARTS[kind]
        text = part.get("refusal" if what == "refusal" else "text")
        if isinstance(text, str):
            self.say_whole((index, at, what), text_kind, text, events)
        annotations = part.get("annotations")
        if isinstance(annotations, list):
            for annotation in annotations[self._cited.get((index, at), 0) :]:
                self.cite(index, at, annotation, events)

    def cite(self, index: int, at: int, annotation: object, events: list[Event]) -> None:
        self._cited[index, at] = self._cited.get((index, at), 0) + 1
        if isinstance(annotation, dict):
            events.append(PartMeta(part=index, kind="citation", data=sanitized(annotation)))

    def arguments(self, index: int, delta: str, events: list[Event]) -> None:
        """A fragment of a call's arguments."""
        if delta:
            self.output = True
            self._shown.setdefault((index, 0, "arguments"), []).append(delta)
            events += self.tools.feed(index, "", "", delta)

    def whole_arguments(self, index: int, text: str, events: list[Event]) -> None:
        self.arguments(index, self._tail((index, 0, "arguments"), text), events)

    def item(self, index: int, item: object, events: list[Event], *, done: bool) -> None:
        """An item as it begins, or `done`: complete."""
        if not isinstance(item, dict):
            return
        if done:
            self._done.add(index)
        if item.get("type") == "function_call":
            self._call(index, item, events, done=done)
        elif item.get("type") in ("message", "reasoning") and done:
            for member in ("summary", "content"):
                parts = item.get(member)
                for at, part in enumerate(parts if isinstance(parts, list) else ()):
                    self.part(index, at, part, events)
            self._sign(index, item, events)

    def final_output(self, items: object, events: list[Event], *, failed: bool) -> None:
        """The final response: what it holds beyond what was streamed.

        One that `failed` closes no calls (rule 7).
        """
        streamed = {_ITEM_OF.get(what) for _, _, what in self._shown}
        begun = {place[0] for place in self._shown}
        for index, item in enumerate(items if isinstance(items, list) else ()):
            kind = item.get("type") if isinstance(item, dict) else None
            if kind == "function_call" and failed:
                continue
            if kind == "function_call":
                known = item.get("call_id") in self._call_ids.values()
                if self._call_ids.get(index) == item.get("call_id"):
                    self.item(index, item, events, done=True)
                elif not known:
                    # Some servers leave items out when they count, or count from elsewhere.
                    self.item(UNNUMBERED * 2 + index, item, events, done=True)
            elif kind not in streamed or index in begun:
                self.item(index, item, events, done=True)

    def _call(self, index: int, item: dict[str, Any], events: list[Event], *, done: bool) -> None:
        call_id, name = item.get("call_id"), item.get("name")
        text = arguments_in(item.get("arguments"))
        self.output = True
        self._call_ids[index] = call_id
        events += self.tools.feed(
            index,
            call_id if isinstance(call_id, str) else "",
            name if isinstance(name, str) else "",
            None,
        )
        if not done:
            if isinstance(text, str):
                self._announced[index] = text
            return
        if isinstance(text, str):
            self.whole_arguments(index, text, events)
        if (index, 0, "arguments") not in self._shown:
            self.arguments(index, self._announced.get(index, ""), events)
        events += self.tools.close_one(index, text if isinstance(text, dict) else None)

    def announced_arguments(self, events: list[Event]) -> None:
        """At a good end: of calls about which nothing more was said than how they begin."""
        for index, text in self._announced.items():
            if (index, 0, "arguments") not in self._shown:
                self.arguments(index, text, events)

    def _sign(self, index: int, item: dict[str, Any], events: list[Event]) -> None:
        signature = item.get("encrypted_content")
        if isinstance(signature, str) and signature and signature not in self._signed:
            self._signed.add(signature)
            data = {"id": item.get("id"), "signature": signature}
            events.append(PartMeta(part=index, kind="signature", data=sanitized(data)))

    def _tail(self, place: Place, whole: str) -> str:
        """What `whole` adds to what was shown there; nothing if it is another text."""
        pieces = self._shown.get(place)
        if pieces is None:
            return whole
        pieces[:] = ["".join(pieces)]  # so that saying it again does not cost more each time
        return whole[len(pieces[0]) :] if whole.startswith(pieces[0]) else ""
