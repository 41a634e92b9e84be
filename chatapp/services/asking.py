"""Asking: from a question to a queued response that a worker will find.

The database first, in one transaction, then the store. The store is pinged before, so that a Redis
that is away costs nobody a message; one that goes away in between is caught up by the sweep.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

import msgspec

from chatapp import runtime
from chatapp.models import Chat, Message, Response, User
from chatapp.services import limits
from chatapp.services.errors import NotRetryable, Occupied, StoreAway
from chatapp.services.settling import settle, submit_or_leave_to_sweep
from chatapp.services.writing import Draft, Written, find_repeat, write
from relay import Disconnect, GenerationRequest, StoreUnavailable


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
    model = limits.require_model(question.model)
    limits.check_messages(question.messages, question.instructions)
    limits.check_encodable(question.stop, question.tools, question.metadata)
    request = _request(
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
        request_hash=_hash(question),
        idempotency_key=idempotency_key,
        metadata=msgspec.json.encode(question.metadata).decode(),
    )
    return (await _begin(draft)).response


async def send_message(
    *,
    user: User,
    chat: Chat,
    text: str,
    model: str | None = None,
    on_disconnect: Disconnect | None = None,
    watching: bool = True,
    idempotency_key: str | None = None,
) -> Sent:
    """Store a message and start its answer. Safe to repeat with the same key for 24 hours."""
    chosen = limits.require_model(model or chat.model)
    limits.check_text(text)
    request = _request(chosen.name, limits.policy(on_disconnect, watching=watching))
    draft = Draft(
        user=user,
        request=request,
        request_hash=_hash([str(chat.pk), text, model, on_disconnect]),
        chat=chat,
        text=text,
        idempotency_key=idempotency_key,
    )
    written = await _begin(draft)
    assert written.message is not None  # noqa: S101 - the one just written, or the repeated one's
    return Sent(written.response, written.message)


async def retry(*, response: Response, by: User) -> Response:
    """Ask the same again after an answer that did not complete. Safe to repeat: one retry each."""
    if not response.is_final and await settle([response.pk]):
        await response.arefresh_from_db()
    if not response.is_final:
        raise NotRetryable("This answer is still being written; stop it first.")
    if response.status == "completed":
        raise NotRetryable("This answer is complete; there is nothing to try again.")
    request = GenerationRequest.from_json(response.request)
    limits.require_model(request.model)
    draft = Draft(
        user=by,
        request=request,
        request_hash=response.request_hash,
        chat=await Chat.objects.filter(responses=response).afirst(),
        metadata=response.metadata,
        retry_of=response,
    )
    return (await _begin(draft)).response


async def _begin(draft: Draft) -> Written:
    written = await _write(draft)
    if not written.response.is_final:  # a repeated one may be
        await submit_or_leave_to_sweep(written.response)
    return written


async def _write(draft: Draft) -> Written:
    try:
        await runtime.store().ping()
    except StoreUnavailable as exc:
        # Nothing may be written now, but a repeat of what was accepted before is no new wish.
        if (found := await find_repeat(draft)) is not None:
            return found
        raise StoreAway from exc
    try:
        return await write(draft)
    except Occupied as occupied:
        if not await settle(occupied.running):
            raise
    return await write(draft)


def _request(model: str, on_disconnect: Disconnect, **options: Any) -> GenerationRequest:
    """Id and time are given when it is written."""
    options.setdefault("messages", [])
    return GenerationRequest(
        response_id="", created_at="", model=model, on_disconnect=on_disconnect, **options
    )


def _hash(sent: Any) -> str:
    """Of what the client sent, not of what we made of it: a repeat may come over another door."""
    return sha256(msgspec.json.encode(sent)).hexdigest()
