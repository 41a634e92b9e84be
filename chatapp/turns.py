"""The turns of a chat's page: questions, and answers with all that is shown at them."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any, Final

from django.urls import reverse
from django.utils.safestring import SafeString

from chatapp import rendering, services
from chatapp.branches import Versions, joined
from chatapp.models import Chat, Message, Response
from chatapp.places import was_left_out
from chatapp.templatetags.answers import Call, call_of, figures_of, instead_of, reasoning_of
from chatapp.templatetags.words import End, end_of, state_of
from relay import TERMINAL, Snapshot, StoreUnavailable

EMPTY: Final = SafeString()
ALONE: Final = Versions()


@dataclass(frozen=True, slots=True)
class Answer:
    """A snapshot as the template shows it."""

    snapshot: Snapshot
    end: End
    state: str
    waits: bool = False
    """For the end of another answer of its chat: it can be removed."""
    html: SafeString = EMPTY
    """The text of its snapshot."""
    rest: Snapshot | None = None
    """Of the response itself, where `snapshot` begins with what it goes on from."""
    before: dict[str, str] | None = None
    """That beginning, for page.js: `text` and `reasoning`."""
    parts: tuple[str, ...] = ()
    """Ids of the responses that it goes on from, the first one first."""
    asked: str = ""
    """The model that was asked for."""

    @classmethod
    def of(
        cls, snapshot: Snapshot, *, last: bool = True, waits: bool = False, asked: str = ""
    ) -> Answer:
        if snapshot.status not in TERMINAL:
            return cls(snapshot, End(), state_of(snapshot), waits, asked=asked)
        end = end_of(snapshot)
        # The conversation has gone on: only its last answer can be tried again.
        return cls(snapshot, end if last else replace(end, retry=False), "", asked=asked)

    def after(self, earlier: Answer, *, last: bool = True) -> Answer:
        """With what it goes on from: one answer to a person."""
        snapshot = joined(earlier.snapshot, self.snapshot)
        whole = self.of(snapshot, last=last, waits=self.waits, asked=self.asked)
        before = {"text": earlier.snapshot.text, "reasoning": earlier.snapshot.reasoning}
        parts = (*earlier.parts, earlier.snapshot.id)
        return replace(whole, rest=self.snapshot, before=before, parts=parts)

    @property
    def ended(self) -> bool:
        return self.snapshot.status in TERMINAL

    @property
    def reasoning(self) -> str:
        """What stands over it."""
        alone = self.before is None or not self.before["reasoning"]
        return reasoning_of(self.snapshot, only_this=alone)

    @property
    def calls(self) -> list[Call]:
        return [call_of(call, ended=self.ended) for call in self.snapshot.tool_calls]

    @property
    def instead(self) -> str:
        return instead_of(self.snapshot, self.asked)

    @property
    def figures(self) -> list[tuple[str, str]]:
        return figures_of(self.rest or self.snapshot, only_this=self.rest is None)

    @property
    def stop_url(self) -> str:
        return reverse("response-stop", args=[self.snapshot.id or "RESPONSE"])

    @property
    def retry_url(self) -> str:
        return reverse("response-retry", args=[self.snapshot.id or "RESPONSE"])

    @property
    def data(self) -> Any:
        """For page.js: the same object as `GET /api/responses/{id}`."""
        return json.loads((self.rest or self.snapshot).to_json())

    @property
    def data_id(self) -> str:
        return f"snapshot-{self.snapshot.id}"

    @property
    def before_id(self) -> str:
        return f"before-{self.snapshot.id}"


@dataclass(frozen=True, slots=True)
class Shown:
    """A picture of a question; its size, so that nothing moves when it comes."""

    url: str
    width: int
    height: int


@dataclass(frozen=True, slots=True)
class Turn:
    id: int
    text: str
    answer: Answer | None = None
    left_out: str = ""
    """Said before it: what stands above was not told to the model."""
    versions: Versions = ALONE
    edited: str | None = None
    """What a person made of it that was not taken: given back in its form."""
    asked_model: str = ""
    final: bool = False
    """Its record is written: the text will not change."""
    pictures: tuple[Shown, ...] = ()
    waits: bool = False
    """A question whose answer waits for the end of another: it can still be said otherwise."""
    gone: bool = False
    """Its text is not kept any more."""
    begun: tuple[int, ...] = ()
    """Ids of the messages that its answer goes on from."""


def pictures_of(message: Message) -> tuple[Shown, ...]:
    return tuple(
        Shown(reverse("picture", args=[one["id"]]), one["width"], one["height"])
        for one in message.pictured
    )


async def turns_of(chat: Chat, shown: services.Window) -> list[Turn]:
    """What a page shows of a chat, oldest first. Raises RecordUnavailable."""
    messages, tree = shown.messages, await services.tree_of(chat=chat)
    left = was_left_out(shown)
    turns: list[Turn] = []
    for n, message in enumerate(messages):
        last = message is messages[-1] and not shown.newer
        turn = await _turn(message, last=last)
        if left is not None and left[0] == n:
            turn = replace(turn, left_out=left[1])
        if turn.answer and turns and (earlier := turns[-1].answer):
            begun = turns.pop()  # one goes on with the other
            whole = turn.answer.after(earlier, last=last)
            left_out = begun.left_out or turn.left_out
            turn = replace(turn, answer=whole, left_out=left_out, begun=(*begun.begun, begun.id))
        if turns and turn.answer and turn.answer.waits and not turn.answer.ended:
            turns[-1] = replace(turns[-1], waits=True)
        turns.append(turn)
    turns = [replace(turn, versions=Versions.of(tree, turn.id)) for turn in turns]
    return await _as_html(turns)


async def elsewhere(chat: Chat) -> Message | None:
    """The answer that is being written on a branch that is not shown."""
    answers = Message.objects.filter(chat=chat, response__in=Response.objects.begun())
    off = answers.exclude(pk__in=Message.objects.path_to(chat.current_id).values("pk"))
    return await off.afirst()


async def _as_html(turns: list[Turn]) -> list[Turn]:
    """The same turns, their answers with HTML: kept for those whose text will not change.

    Nor is that of an answer of several parts: what is kept belongs to one message.
    """
    texts = {turn.id: turn.answer.snapshot.text for turn in turns if turn.answer}
    final = {turn.id for turn in turns if turn.final and turn.answer and not turn.answer.before}
    html = await rendering.html_of(texts, final)
    return [
        turn
        if turn.answer is None
        else replace(turn, answer=replace(turn.answer, html=html[turn.id]))
        for turn in turns
    ]


async def _turn(message: Message, *, last: bool) -> Turn:
    response = message.response
    if response is None:
        pictures = pictures_of(message)
        return Turn(message.pk, message.text, pictures=pictures, gone=message.forgotten)
    gone = response.erased_at is not None
    answer = Answer.of(
        await _snapshot(response),
        last=last and not gone,
        waits=response.waits,
        asked=response.model,
    )
    return Turn(
        message.pk,
        message.text,
        answer,
        asked_model=response.model,
        final=response.is_final,
        gone=gone,
    )


async def _snapshot(response: Response) -> Snapshot:
    try:
        return await services.snapshot(response)
    except StoreUnavailable:
        return services.recorded(response)  # less than is known; the page goes on from there
