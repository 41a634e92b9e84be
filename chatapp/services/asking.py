"""Asking: from a question to a queued response that a worker will find.

The database first, in one transaction, then the store. The store is asked for room before, so that
a Redis that is away or full costs nobody a message; what it refuses in between is caught up by the
sweep.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import msgspec
from django.utils.translation import gettext_lazy as _

from chatapp import catalog, quotas, redaction, runtime, telemetry
from chatapp.finalize import database_errors
from chatapp.models import Chat, Message, Response, User
from chatapp.services import limits
from chatapp.services.context import ready_to_count, request_in
from chatapp.services.errors import (
    DayUsedUp,
    EnoughRunning,
    KeyReused,
    LimitReached,
    NoRoom,
    NotChecked,
    NotRetryable,
    Occupied,
    Refused,
    StoreAway,
    Unconfirmed,
)
from chatapp.services.settling import (
    free_places,
    give_back,
    settle,
    start_next,
    submit_or_leave_to_sweep,
)
from chatapp.services.stopping import cancel
from chatapp.services.writing import Draft, Place, Written, find_repeat, response_id_of, write
from relay import (
    COUNTERS,
    Disconnect,
    GenerationRequest,
    Grant,
    RecordUnavailable,
    Reserved,
    StopReason,
    StoreRefused,
    StoreUnavailable,
    day_end,
    quota_day,
)

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What a client asks of a model, as `POST /api/responses` takes it."""

    model: str
    messages: list[dict[str, Any]]
    instructions: str | None = None
    max_output_tokens: int | None = None
    temperature: float | None = None
    stop: list[str] = field(default_factory=list)
    tools: list[dict[str, Any]] = field(default_factory=list)
    metadata: dict[str, Any] = field(default_factory=dict)
    on_disconnect: Disconnect | None = None
    """None: law 8's default, patience for somebody who watches, `continue` for anyone else."""


@dataclass(frozen=True, slots=True)
class Sent:
    response: Response
    message: Message
    """The person's message that is being answered."""
    answer: Message


async def create_response(
    *,
    user: User,
    question: Question,
    watching: bool = False,
    idempotency_key: str | None = None,
) -> Response:
    """Start an answer outside any chat. Safe to repeat with the same key for 24 hours.

    `watching`: the one who asks follows the answer from the start.
    """
    model = await limits.usable_model(question.model, user)
    limits.check_messages(question.messages, question.instructions)
    limits.check_parts(model, question.messages)
    limits.check_encodable(question.stop, question.tools, question.metadata)
    request = request_for(
        model.name,
        limits.policy(question.on_disconnect, watching=watching),
        messages=question.messages,
        instructions=question.instructions,
        max_output_tokens=question.max_output_tokens,
        temperature=question.temperature,
        stop=question.stop,
        tools=question.tools,
    )
    draft = Draft(
        user=user,
        request=request,
        request_hash=hash_of(question),
        idempotency_key=idempotency_key,
        response_id=response_id_of(user, idempotency_key),
        metadata=msgspec.json.encode(question.metadata).decode(),
    )
    return (await begin(draft)).response


async def send_message(
    *,
    user: User,
    chat: Chat,
    text: str,
    images: Sequence[bytes] = (),
    model: str | None = None,
    on_disconnect: Disconnect | None = None,
    watching: bool = True,
    idempotency_key: str | None = None,
) -> Sent:
    """Store a message and start its answer. Safe to repeat with the same key for 24 hours.

    `images`: files of pictures, for a model that sees them; with one, the text may be empty.
    """
    chosen = await limits.usable_model(model or chat.model, user)
    pictures = limits.read_pictures(chosen, images, text)
    if not pictures:
        limits.check_text(text)
    policy = limits.policy(on_disconnect, watching=watching)
    request = msgspec.structs.replace(request_in(chat, chosen.name), on_disconnect=policy)
    await ready_to_count(chosen)
    draft = Draft(
        user=user,
        request=request,
        request_hash=hash_of([str(chat.pk), text, model, on_disconnect, *map(digest, images)]),
        chat=chat,
        text=text,
        pictures=pictures,
        idempotency_key=idempotency_key,
        response_id=response_id_of(user, idempotency_key),
    )
    return sent(await begin(draft))


def sent(written: Written) -> Sent:
    """What was written into a chat, for whoever asked."""
    question, answer = written.question, written.answer
    assert question is not None  # noqa: S101 - an answer of a chat answers somebody
    assert answer is not None  # noqa: S101
    return Sent(written.response, question, answer)


async def retry(*, response: Response, by: User) -> Response:
    """Ask the same again after an answer that did not complete. Safe to repeat: one retry each."""
    if not response.is_final and await settle([response.pk]):
        await response.arefresh_from_db()
    if not response.is_final:
        raise NotRetryable(_("This answer is still being written; stop it first."))
    if response.status == "completed":
        raise NotRetryable(_("This answer is complete; there is nothing to try again."))
    request = GenerationRequest.from_json(response.request)
    await limits.usable_model(request.model, by)
    answer = await Message.objects.filter(response=response).select_related("chat").afirst()
    draft = Draft(
        user=by,
        request=request,
        request_hash=response.request_hash,
        chat=answer.chat if answer else None,
        place=Place(answer.parent_id, "retry") if answer else None,
        metadata=response.metadata,
        response_id=response_id_of(by, None),
        retry_of=response,
    )
    return (await begin(draft)).response


async def begin(draft: Draft) -> Written:
    """Reserve, write, and hand it to the store. Raises Refused, RecordUnavailable."""
    if redaction.active():
        draft = await asyncio.to_thread(_redacted, draft)
    if draft.chat is not None and draft.chat.double_text == Chat.DoubleText.INTERRUPT:
        await _supersede(draft, draft.chat)
    if (traces := telemetry.current()) is not None:
        request = msgspec.structs.replace(draft.request, traceparent=traces.traceparent())
        draft = replace(draft, request=request)
    try:
        written = await _write(draft)
    except Refused as refused:
        COUNTERS.refusals.add(refused.kind)
        raise
    if written.response.waits and written.response.chat_id is not None:
        await start_next(written.response.chat_id)  # perhaps what it waits for has just ended
    elif not written.response.is_final:  # a repeated one may be
        await submit_or_leave_to_sweep(written.response)
    return written


def _redacted(draft: Draft) -> Draft:
    """What a chat or an earlier request has of it was redacted when it was stored."""
    request, told = draft.request, draft.request.instructions
    try:
        metadata = redaction.redact_all(msgspec.json.decode(draft.metadata))
        request = msgspec.structs.replace(
            request,
            messages=redaction.redact_all(request.messages),
            instructions=redaction.redact(told) if told else told,
        )
        text = redaction.redact(draft.text) if draft.text else draft.text
    except redaction.RedactionFailed as exc:
        raise NotChecked from exc
    metadata = msgspec.json.encode(metadata).decode()
    return replace(draft, text=text, request=request, metadata=metadata)


async def _write(draft: Draft) -> Written:
    try:
        grant = await _reserve(draft)
    except (StoreUnavailable, LimitReached) as exc:
        # Nothing may be written now, but a repeat of what was accepted before is no new wish.
        if (found := await find_repeat(draft)) is not None:
            return found
        if isinstance(exc, StoreUnavailable):
            raise _away(exc) from exc
        if draft.chat is None or not isinstance(exc, EnoughRunning):
            raise
        draft, grant = replace(draft, refusal=exc), Grant(Reserved.RUNNING)
    # Only now: `_reserve` makes sure that this process knows the store's time (PROTOCOL 9.4).
    draft = replace(draft, asked_at=runtime.now())
    try:
        written = await _write_row(draft)
    except (Refused, RecordUnavailable) as exc:
        # A reused key names another's row, whose place it is; and a row that may be there needs
        # its own until it is settled or lapses (PROTOCOL 11.4).
        if grant.outcome is Reserved.GRANTED and not isinstance(exc, KeyReused | Unconfirmed):
            await _release(draft)
        raise
    if written.response.waits:
        # It takes a place when it begins; a repeat finds one only if that was in this moment.
        if not written.repeated or grant.outcome is Reserved.GRANTED:
            with suppress(StoreUnavailable, RecordUnavailable):  # then it lapses
                await give_back(draft.user, written.response)
    elif written.response.pk != draft.response_id:
        # A retry's repeat; or a key that is free again after its day names another id.
        await _release(draft)
        if not written.repeated:
            await _reserve_again(draft, written.response.pk)
    elif written.repeated and written.response.is_final and grant.outcome is Reserved.GRANTED:
        await _release(draft)
    return written


async def _supersede(draft: Draft, chat: Chat) -> None:
    """Stop what the chat is doing; a repeat of this very message stops nothing.

    One that has not ended within a stop's patience is waited for in the chat's queue. Raises
    StoreAway, NoRoom before anything is stopped.
    """
    if draft.text is None or draft.place is not None or await find_repeat(draft) is not None:
        return
    try:
        await runtime.store().room()
    except StoreUnavailable as exc:
        raise _away(exc) from exc
    rows = Response.objects.running().filter(chat=chat).exclude(pk=draft.response_id)
    for response in [row async for row in rows.order_by("-waits")]:
        await cancel(response=response, by=draft.user, reason=StopReason.SUPERSEDED)


def _away(exc: StoreUnavailable) -> Refused:
    return NoRoom() if isinstance(exc, StoreRefused) else StoreAway()


async def _write_row(draft: Draft) -> Written:
    try:
        return await write(draft)
    except Occupied as occupied:
        if not await settle(occupied.running):
            raise
    return await write(draft)


async def _reserve(draft: Draft) -> Grant:
    """A place for this answer, before anything is written. Raises LimitReached, StoreUnavailable.

    Viewers see an end a moment before it is settled: who asks again in that moment finds the place
    free, because what has ended is settled here and then.
    """
    refused = {Reserved.RUNNING, Reserved.TOKENS}
    grant = await _grant(draft, draft.response_id)
    if grant.outcome in refused and await free_places(grant.running):
        grant = await _grant(draft, draft.response_id)
    terms, now = quotas.terms_of(draft.user), runtime.now()
    if grant.outcome is Reserved.RUNNING:
        raise EnoughRunning(grant.running, terms.max_generations)
    if grant.outcome is Reserved.TOKENS:
        raise DayUsedUp(
            grant.running,
            used=grant.used,
            limit=terms.max_output_tokens_per_day,
            resets_at=day_end(quota_day(now)),
            now=now,
        )
    return grant


async def _grant(draft: Draft, response_id: str) -> Grant:
    model = catalog.models().get(draft.request.model)
    with database_errors():
        return await quotas.reserve(draft.user, response_id, model, draft.request.max_output_tokens)


async def _reserve_again(draft: Draft, response_id: str) -> None:
    """Under its row's id; a place that somebody took in between is one too many, not a refusal."""
    with suppress(StoreUnavailable):
        await _grant(draft, response_id)


async def _release(draft: Draft) -> None:
    with suppress(StoreUnavailable):  # then it lapses
        await quotas.release(draft.user, [draft.response_id])


def request_for(model: str, on_disconnect: Disconnect, **options: Any) -> GenerationRequest:
    """Id and time are given when it is written."""
    options.setdefault("messages", [])
    return GenerationRequest(
        response_id="", created_at="", model=model, on_disconnect=on_disconnect, **options
    )


def digest(data: bytes) -> str:
    return sha256(data).hexdigest()


def hash_of(sent: Any) -> str:
    """Of what the client sent, not of what we made of it: a repeat may come over another door."""
    return sha256(msgspec.json.encode(sent)).hexdigest()
