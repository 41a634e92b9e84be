"""The transaction that turns a question into rows: synchronous, one thread hop, all or nothing."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec
from django.db.models import Max
from django.utils.translation import gettext

from chatapp import audit, catalog, runtime
from chatapp.attached import parts_of
from chatapp.finalize import database_errors, plain
from chatapp.middleware.threads import on_database_thread, transact
from chatapp.models import Chat, Message, MessageQuerySet, Response, User
from chatapp.models.people import is_erased
from chatapp.named import undirected
from chatapp.services import showing
from chatapp.services.ends import rfc3339
from chatapp.services.errors import (
    ChatBusy,
    EnoughRunning,
    Erased,
    KeyReused,
    QueueFull,
    Unconfirmed,
)
from chatapp.services.fitting import Fitted, Turn, fit, room_for
from chatapp.statements import insert
from relay import (
    GenerationRequest,
    RecordUnavailable,
    estimated_tokens,
    new_response_id,
    token_counter,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime
    from uuid import UUID

    from chatapp.pictures import Drawing

KEY_LIFE: Final = timedelta(hours=24)
"""How long an Idempotency-Key names its request (design §4)."""
TITLE_CHARS: Final = 60
MAX_WAITING: Final = 5
"""Messages that wait in one chat: more than a person types ahead, less than a script piles up."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where in its chat's tree something is written, if not below what is shown."""

    below: int | None
    """The message that it follows; None: it begins the conversation anew."""
    why: str
    """`edit`, `regenerate`, `continue` or `retry`: for the audit trail."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A question that has passed every check that needs no database."""

    user: User
    request: GenerationRequest
    """Without id and time; in a chat without `messages`, unless the same is asked again."""
    request_hash: str
    chat: Chat | None = None
    text: str | None = None
    """What a person wrote into the chat; None: what they wrote before is answered."""
    pictures: tuple[Drawing, ...] = ()
    """What they show with it."""
    pictured: tuple[dict[str, int], ...] = ()
    """What they had shown before with what is now said otherwise (`Message.pictured`)."""
    place: Place | None = None
    idempotency_key: str | None = None
    metadata: str = "{}"
    refusal: EnoughRunning | None = None
    """Its person's limit is reached: raised unless it has to wait for its chat anyway."""
    response_id: str = field(default_factory=new_response_id)
    """The row's, unless it is a repeat, or its key is free again after its time (`write`)."""
    retry_of: Response | None = None
    asked_at: datetime = field(default_factory=runtime.now)


@dataclass(frozen=True, slots=True)
class Written:
    response: Response
    repeated: bool = False
    """It was there before."""
    question: Message | None = None
    """The person's message that is answered, in a chat."""
    answer: Message | None = None


async def write(draft: Draft) -> Written:
    """Store the question, or find the row of an earlier one with the same key or the same retry.

    Raises KeyReused, ChatBusy, QueueFull; RecordUnavailable if nothing was written, Unconfirmed if
    that is not known: everything was done but the commit.
    """
    done: list[Written] = []

    def work() -> Written:
        done.append(write_or_find(draft))
        return done[-1]

    try:
        with database_errors():
            return await transact(work)
    except RecordUnavailable as exc:
        if done:
            raise Unconfirmed(str(exc)) from exc
        raise


@on_database_thread
def find_repeat(draft: Draft) -> Written | None:
    """The row of an earlier request with this key. Raises KeyReused, RecordUnavailable."""
    with database_errors():
        return _repeat(draft, _keyed(draft))


def write_or_find(draft: Draft) -> Written:
    """In a transaction; again if somebody else's insert came between its look and its own."""
    if is_erased(draft.user.pk):
        raise Erased
    keyed = _keyed(draft)
    if (found := _repeat(draft, keyed)) is not None:
        return found
    if keyed is not None:  # its 24 hours are over: the key is free again
        Response.objects.filter(pk=keyed.pk).update(idempotency_key=None)
    waits = draft.chat is not None and _must_wait(draft, draft.chat)
    if draft.refusal is not None and not waits:
        raise draft.refusal
    spot = _Spot.of(draft)
    if draft.chat is not None and draft.pictures:
        kept = showing.keep(
            draft.chat, draft.pictures
        )  # first: the request that is stored names them
        draft = replace(draft, pictures=(), pictured=draft.pictured + kept)
    response = _row(draft, spot, after=keyed)
    response.waits = waits
    insert(response)
    written = Written(response)
    if draft.chat is not None:
        written = _grow(draft, draft.chat, spot, response)
    detail: dict[str, Any] = {
        "chat": str(draft.chat.pk) if draft.chat else None,
        "branch": draft.place.why if draft.place else None,
        "retry_of": draft.retry_of.pk if draft.retry_of else None,
    }
    question = written.question.text if written.question else None
    audit.created(response, actor=draft.user.username, detail=detail, question=question)
    return written


def response_id_of(user: User, idempotency_key: str | None) -> str:
    """The same one for the same key (PROTOCOL 11), a fresh one without."""
    return new_response_id(
        runtime.config().shards, user=str(user.pk), idempotency_key=idempotency_key or ""
    )


def _keyed(draft: Draft) -> Response | None:
    if draft.idempotency_key is None:
        return None
    return Response.objects.keyed(draft.user, draft.idempotency_key).first()


def _repeat(draft: Draft, keyed: Response | None) -> Written | None:
    if keyed is not None and keyed.created_at > draft.asked_at - KEY_LIFE:
        if keyed.request_hash != draft.request_hash:
            raise KeyReused
        return _written_before(keyed)
    if draft.retry_of is not None:
        again = Response.objects.filter(retry_of=draft.retry_of).first()
        return _written_before(again) if again else None
    return None


def _written_before(response: Response) -> Written:
    answer = Message.objects.filter(response=response).first()
    return Written(response, True, question_of(answer) if answer else None, answer)


def question_of(answer: Message) -> Message | None:
    """The person's message that it answers."""
    asked = Message.objects.path_to(answer.parent_id).filter(role=Message.Role.USER)
    return asked.order_by("-position").first()


def _must_wait(draft: Draft, chat: Chat) -> bool:
    """For another answer of the chat. Raises ChatBusy, QueueFull."""
    here = list(Response.objects.running().filter(chat=chat).values_list("pk", "waits"))
    running = [pk for pk, waits in here if not waits]
    # A branch is begun at what a person sees: nobody wants one that begins some time later.
    branches = draft.text is None or draft.place is not None
    if here and (branches or chat.double_text == Chat.DoubleText.REJECT):
        raise ChatBusy(running or [pk for pk, _ in here])
    if len(here) - len(running) >= MAX_WAITING:
        raise QueueFull(running, MAX_WAITING)
    return bool(here)


class _Spot(NamedTuple):
    """Where something is written: below which message, and after which position."""

    below: int | None = None
    last: int = 0

    @classmethod
    def of(cls, draft: Draft) -> _Spot:
        if draft.chat is None:
            return cls()
        chats = Chat.objects.filter(pk=draft.chat.pk)
        # Two that write at once read the same position, and the constraint lets one of them pass.
        current, last = chats.values_list("current_id", Max("messages__position")).get()
        return cls(current if draft.place is None else draft.place.below, last or 0)


def _row(draft: Draft, spot: _Spot, *, after: Response | None) -> Response:
    key, now = draft.idempotency_key, draft.asked_at
    response_id = draft.response_id
    if key is not None and after is not None:
        # A key that is used again after its time must not name the old response (PROTOCOL 11).
        response_id = response_id_of(draft.user, f"{key}\n{after.pk}")
    alone = draft.chat is None or draft.retry_of is not None
    shown = None if alone else _conversation(draft, spot)
    model = catalog.models().get(draft.request.model)
    request = msgspec.structs.replace(
        draft.request,
        response_id=response_id,
        created_at=rfc3339(now),
        messages=draft.request.messages
        if shown is None
        else showing.messages_of(shown.turns, model),
    )
    retried = draft.retry_of
    return Response(
        id=response_id,
        user=draft.user,
        chat=draft.chat,
        model=request.model,
        request=request.to_json().decode(),
        request_hash=draft.request_hash,
        idempotency_key=key,
        metadata=draft.metadata,
        cancel_after_s=request.on_disconnect.cancel_after_s,
        leave_after_s=request.on_disconnect.leave_after_s,
        created_at=now,
        retry_of=retried,
        left_out=shown.left_out if shown else retried.left_out if retried else 0,
        shown_from=shown.shown_from if shown else retried.shown_from if retried else 0,
    )


def _conversation(draft: Draft, spot: _Spot) -> Fitted:
    """The chat so far and the new text, as far as there is room for them."""
    turns = turns_of(Message.objects.path_to(spot.below).said())
    if draft.text is not None:
        shown = showing.rooms_of(draft.pictured)
        turns.append(Turn(spot.last + 1, Message.Role.USER, draft.text, shown))
    return fitted(draft.request, turns)


def turns_of(said: MessageQuerySet) -> list[Turn]:
    """Oldest first. An answer that was gone on with is one turn."""
    turns: list[Turn] = []
    rows = said.order_by("position").values_list("position", "role", "text", "pictured")
    for turn in (Turn(*row[:3], showing.rooms_of(row[3])) for row in rows):
        if turns and turn.role == turns[-1].role == Message.Role.ASSISTANT:
            turns[-1] = turns[-1]._replace(text=turns[-1].text + turn.text)
        else:
            turns.append(turn)
    # What it answers is not kept any more: a conversation begins with a person.
    return turns[1:] if turns and turns[0].role == Message.Role.ASSISTANT else turns


def fitted(request: GenerationRequest, turns: Sequence[Turn]) -> Fitted:
    """What of `turns` the model of this request is shown beside its instructions."""
    model = catalog.models().get(request.model)
    room = room_for(
        model,
        max_output_tokens=request.max_output_tokens,
        max_input_bytes=runtime.config().max_input_bytes,
    )
    count = estimated_tokens if model is None else token_counter(model)
    return fit(turns, room, instructions=request.instructions or "", count=count)


def _grow(draft: Draft, chat: Chat, spot: _Spot, response: Response) -> Written:
    """The chat's tree gets an answer, with a text its question first; the answer is shown."""
    below, last = spot
    question = None
    if draft.text is not None:
        text = plain(draft.text)
        question = Message.objects.create(
            chat=chat,
            role=Message.Role.USER,
            position=last + 1,
            text=text,
            pictured=list(draft.pictured),
            parent_id=below,
        )
        below, last = question.pk, last + 1
        chat.title = chat.title or _first_words(text) or gettext("Picture")
    answer = Message.objects.create(
        chat=chat,
        role=Message.Role.ASSISTANT,
        position=last + 1,
        response=response,
        parent_id=below,
    )
    chat.current, chat.updated_at = answer, response.created_at
    chat.changed_at = response.created_at
    chat.save(update_fields=["title", "updated_at", "changed_at", "current"])
    return Written(response, question=question or question_of(answer), answer=answer)


def waiting_chats(user_id: int) -> list[UUID]:
    """Those of a person in which something waits and nothing runs, the longest wait first."""
    with database_errors():
        waiting = Response.objects.waiting().filter(user_id=user_id, stop_requested_at=None)
        busy = Response.objects.begun().filter(user_id=user_id, chat__isnull=False)
        free = waiting.exclude(chat__in=busy.values("chat"))
        return list(dict.fromkeys(free.order_by("created_at").values_list("chat_id", flat=True)))


def has_begun(response_id: str) -> bool:
    """It runs: it waits for nothing any more, and has no end yet."""
    with database_errors():
        return Response.objects.begun().filter(pk=response_id).exists()


def next_in(chat_id: UUID) -> Response | None:
    """What waits first in a chat in which nothing runs, with its person and their plan."""
    if Response.objects.begun().filter(chat_id=chat_id).exists():
        return None
    rows = Response.objects.waiting().filter(chat_id=chat_id, stop_requested_at=None)
    return rows.select_related("user__plan").order_by("message__position").first()


def begin(response_id: str, now: datetime) -> Response | None:
    """In a transaction: it waits no longer. None if it was begun or stopped meanwhile.

    The conversation is what it is now, and its wall clock begins.
    """
    rows = Response.objects.waiting().filter(pk=response_id, stop_requested_at=None)
    # Locked before it is read what was said: until now it could be rewritten (`waiting.rewrite`).
    row = rows.select_for_update().first()
    if row is None or row.chat_id is None:
        return None
    if Response.objects.begun().filter(chat_id=row.chat_id).exists():
        return None
    answer = Message.objects.get(response=row)
    said = Message.objects.path_to(answer.parent_id).said()
    asked = GenerationRequest.from_json(row.request)
    shown = fitted(asked, turns_of(said))
    model = catalog.models().get(asked.model)
    told = showing.messages_of(shown.turns, model)
    request = msgspec.structs.replace(asked, created_at=rfc3339(now), messages=told)
    row.waits, row.created_at, row.request = False, now, request.to_json().decode()
    columns = {
        "waits": False,
        "created_at": now,
        "request": row.request,
        "left_out": shown.left_out,
        "shown_from": shown.shown_from,
    }
    # A stop that was wished in between wins: whoever wished it ends the row as it waits.
    begun = Response.objects.waiting().filter(pk=row.pk, stop_requested_at=None).update(**columns)
    Chat.objects.filter(pk=row.chat_id).update(changed_at=now)
    if not begun:
        return None
    audit.begun(row)
    return row


def _first_words(text: str) -> str:
    """A name for now: what was written, else what is attached; "" only for no text at all."""
    parts = parts_of(text)
    words = next((part.text for part in parts if not part.name), parts[0].name if parts else "")
    return " ".join(undirected(words).split())[:TITLE_CHARS] or ("…" if text.strip() else "")
