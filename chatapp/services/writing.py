"""The transaction that turns a question into rows: synchronous, one thread hop, all or nothing."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import Any, Final

import msgspec
from django.db.models import Max
from django.utils import timezone

from chatapp import audit, runtime
from chatapp.finalize import database_errors, plain
from chatapp.middleware.threads import on_database_thread, transact
from chatapp.models import Chat, Message, Response, User
from chatapp.services.ends import rfc3339
from chatapp.services.errors import ChatBusy, KeyReused, NotRetryable
from chatapp.statements import insert
from relay import GenerationRequest, new_response_id

KEY_LIFE: Final = timedelta(hours=24)
"""How long an Idempotency-Key names its request (design §4)."""
TITLE_CHARS: Final = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A question that has passed every check that needs no database."""

    user: User
    request: GenerationRequest
    """Without id and time; without `messages` when `text` continues a chat."""
    request_hash: str
    chat: Chat | None = None
    text: str | None = None
    """What a person wrote into the chat."""
    idempotency_key: str | None = None
    metadata: str = "{}"
    response_id: str = field(default_factory=new_response_id)
    """The row's, unless it is a repeat, or its key is free again after its time (`write`)."""
    retry_of: Response | None = None


@dataclass(frozen=True, slots=True)
class Written:
    response: Response
    repeated: bool = False
    """It was there before."""
    message: Message | None = None
    """The person's message, in a chat."""


async def write(draft: Draft) -> Written:
    """Store the question, or find the row of an earlier one with the same key or the same retry.

    Raises KeyReused, ChatBusy, NotRetryable, RecordUnavailable.
    """
    with database_errors():
        return await transact(partial(write_or_find, draft))


@on_database_thread
def find_repeat(draft: Draft) -> Written | None:
    """The row of an earlier request with this key. Raises KeyReused, RecordUnavailable."""
    with database_errors():
        return _repeat(draft, _keyed(draft))


def write_or_find(draft: Draft) -> Written:
    """In a transaction; again if somebody else's insert came between its look and its own."""
    keyed = _keyed(draft)
    if (found := _repeat(draft, keyed)) is not None:
        return found
    if keyed is not None:  # its 24 hours are over: the key is free again
        Response.objects.filter(pk=keyed.pk).update(idempotency_key=None)
    if draft.chat is not None:
        _require_idle(draft.chat)
    response = _row(draft, after=keyed)
    message = None
    if draft.chat is not None:
        message = _continue_chat(draft, draft.chat, response)
    else:
        insert(response)
    detail: dict[str, Any] = {
        "chat": str(draft.chat.pk) if draft.chat else None,
        "retry_of": draft.retry_of.pk if draft.retry_of else None,
    }
    audit.created(response, actor=draft.user.username, detail=detail)
    return Written(response, message=message)


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
    if keyed is not None and keyed.created_at > timezone.now() - KEY_LIFE:
        if keyed.request_hash != draft.request_hash:
            raise KeyReused
        return Written(keyed, True, _question_of(keyed))
    if draft.retry_of is not None:
        again = Response.objects.filter(retry_of=draft.retry_of).first()
        return Written(again, True, _question_of(again)) if again else None
    return None


def _question_of(response: Response) -> Message | None:
    answer = Message.objects.filter(response=response).first()
    if answer is None:
        return None
    asked = Message.objects.filter(chat_id=answer.chat_id, role=Message.Role.USER)
    return asked.before(answer.position).order_by("-position").first()


def _require_idle(chat: Chat) -> None:
    here = list(Response.objects.running().filter(chat=chat).values_list("pk", flat=True))
    if here:
        raise ChatBusy(here)


def _row(draft: Draft, *, after: Response | None) -> Response:
    key, now = draft.idempotency_key, timezone.now()
    response_id = draft.response_id
    if key is not None and after is not None:
        # A key that is used again after its time must not name the old response (PROTOCOL 11).
        response_id = response_id_of(draft.user, f"{key}\n{after.pk}")
    request = msgspec.structs.replace(
        draft.request,
        response_id=response_id,
        created_at=rfc3339(now),
        messages=draft.request.messages if draft.text is None else _conversation(draft),
    )
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
        retry_of=draft.retry_of,
    )


def _conversation(draft: Draft) -> list[dict[str, Any]]:
    """The chat so far and the new text; the oldest turns are left out of one that grew too long."""
    room = (runtime.config().max_input_bytes or 1 << 30) - len((draft.text or "").encode())
    turns: list[dict[str, Any]] = [{"role": "user", "content": draft.text}]
    said = Message.objects.filter(chat=draft.chat).said().order_by("-position")
    for role, text in said.values_list("role", "text"):
        room -= len(text.encode())
        if room < 0:
            break
        turns.append({"role": role, "content": text})
    return turns[::-1]


def _continue_chat(draft: Draft, chat: Chat, response: Response) -> Message | None:
    last = Message.objects.filter(chat=chat).aggregate(last=Max("position"))["last"] or 0
    if draft.retry_of is not None:
        _require_last(draft.retry_of, last)
    insert(response)
    turns = [Message(chat=chat, role=Message.Role.ASSISTANT, position=last + 1, response=response)]
    if draft.text is not None:
        text = plain(draft.text)
        turns[0].position += 1
        turns.insert(0, Message(chat=chat, role=Message.Role.USER, position=last + 1, text=text))
        chat.title = chat.title or " ".join(text.split())[:TITLE_CHARS]
    Message.objects.bulk_create(turns)
    chat.updated_at = response.created_at
    chat.save(update_fields=["title", "updated_at"])
    return turns[0] if draft.text is not None else None


def _require_last(response: Response, last: int) -> None:
    if not Message.objects.filter(response=response, position=last).exists():
        raise NotRetryable("The conversation has gone on; only its last answer can be tried again.")
