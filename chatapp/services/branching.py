"""Branching: another version of a question or an answer, an answer that goes on, another branch.

Nothing that was said is changed or removed: each verb writes beside it, and shows what it wrote.
All but `choose` ask a model, so what holds for a message holds for them: reserved, written at once,
then handed to the store; safe to repeat with the same key for 24 hours. While the chat answers they
are refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from django.db import transaction
from django.utils.translation import gettext_lazy as _

from chatapp import runtime
from chatapp.finalize import database_errors
from chatapp.middleware.threads import on_database_thread
from chatapp.models import Chat, Message, User
from chatapp.services import limits
from chatapp.services.asking import Sent, begin, hash_of, sent
from chatapp.services.context import ready_to_count, request_in
from chatapp.services.errors import BadInput, ChatBusy, NotContinuable
from chatapp.services.reading import recorded
from chatapp.services.settling import settle
from chatapp.services.tree import Node, Tree
from chatapp.services.writing import Draft, Place, question_of, response_id_of

if TYPE_CHECKING:
    from datetime import datetime

    from relay import Disconnect, Snapshot


async def edit_message(
    *,
    message: Message,
    by: User,
    text: str,
    model: str | None = None,
    on_disconnect: Disconnect | None = None,
    watching: bool = True,
    idempotency_key: str | None = None,
) -> Sent:
    """Say it otherwise: a version beside the person's message, with an answer of its own."""
    if message.role != Message.Role.USER:
        raise BadInput(_("Only a message of a person can be edited; this one is an answer."))
    if text.strip() or not message.pictured:
        limits.check_text(text)
    return await _ask(
        message,
        Place(message.parent_id, "edit"),
        by=by,
        text=text,
        model=model or message.chat.model,
        on_disconnect=limits.policy(on_disconnect, watching=watching),
        key=idempotency_key,
    )


async def regenerate(
    *,
    message: Message,
    by: User,
    model: str | None = None,
    on_disconnect: Disconnect | None = None,
    watching: bool = True,
    idempotency_key: str | None = None,
) -> Sent:
    """Answer once more, perhaps by another model. `message`: the answer, or what it answers."""
    question, asked_model = await _asked(message)
    if await Message.objects.filter(pk=question, text="", pictured=[]).aexists():
        raise BadInput(
            _("What was asked is not kept any more, so it cannot be answered again. Ask anew.")
        )
    return await _ask(
        message,
        Place(question, "regenerate"),
        by=by,
        model=model or asked_model,
        on_disconnect=limits.policy(on_disconnect, watching=watching),
        key=idempotency_key,
    )


async def continue_answer(
    *,
    message: Message,
    by: User,
    on_disconnect: Disconnect | None = None,
    watching: bool = True,
    idempotency_key: str | None = None,
) -> Sent:
    """Go on with an answer that ended before it was complete. Raises NotContinuable.

    What is written is a response of its own, below the answer; to a person both are one.
    """
    if message.role != Message.Role.ASSISTANT:
        raise BadInput(_("Only an answer can be continued; this is a message of a person."))
    end, text, model = await _end_of(message)
    limits.check_text(text)
    return await _ask(
        message,
        Place(end, "continue"),
        by=by,
        model=model,
        on_disconnect=limits.policy(on_disconnect, watching=watching),
        key=idempotency_key,
    )


async def choose(*, message: Message) -> int:
    """Show the branch that leads through this message; the id of its last one. Safe to repeat."""
    return await _choose(message, runtime.now())


@on_database_thread
def _choose(message: Message, now: datetime) -> int:
    with database_errors(), transaction.atomic():
        leaf = _tree(message.chat).leaf_below(message.pk)
        Chat.objects.filter(pk=message.chat_id).update(current=leaf, changed_at=now)
        return leaf


@on_database_thread
def tree_of(*, chat: Chat) -> Tree:
    """All branches, without any text. Raises RecordUnavailable."""
    with database_errors():
        return _tree(chat)


def _tree(chat: Chat) -> Tree:
    rows = Message.objects.filter(chat=chat).order_by("position")
    return Tree(map(Node._make, rows.values_list("pk", "parent_id", "role")))


def may_continue(snapshot: Snapshot) -> bool:
    """Whether its words are a beginning that a model can go on with."""
    if not snapshot.ended or snapshot.status == "completed" or snapshot.tool_calls:
        return False
    lost = snapshot.error is not None and not snapshot.error.retryable
    return bool(snapshot.text) and not lost


async def _ask(
    message: Message,
    place: Place,
    *,
    by: User,
    model: str,
    on_disconnect: Disconnect,
    key: str | None,
    text: str | None = None,
) -> Sent:
    chosen = await limits.usable_model(model, by)
    await ready_to_count(chosen)
    request = msgspec.structs.replace(
        request_in(message.chat, chosen.name),
        on_disconnect=on_disconnect,
        continues=place.why == "continue",
    )
    draft = Draft(
        user=by,
        request=request,
        request_hash=hash_of([place.why, message.pk, text, model, on_disconnect]),
        chat=message.chat,
        text=text,
        pictured=tuple(message.pictured) if text is not None else (),
        place=place,
        idempotency_key=key,
        response_id=response_id_of(by, key),
    )
    return sent(await begin(draft))


@on_database_thread
def _asked(message: Message) -> tuple[int, str]:
    """The question's id, and of which model its answer was asked."""
    with database_errors():
        if message.role == Message.Role.USER:
            return message.pk, message.chat.model
        question, response = question_of(message), message.response
    assert question is not None  # noqa: S101 - the first answer of a chain has one
    return question.pk, response.model if response else message.chat.model


async def _end_of(message: Message) -> tuple[int, str, str]:
    """Where an answer is gone on with: the id, the whole text so far, and the model.

    Parts that ended without a word are passed over: what follows is a version of them.
    """
    response = message.response
    if response is not None and not response.is_final and not await settle([response.pk]):
        raise ChatBusy([response.pk])
    parts = await _parts(message)
    while parts and not parts[-1].text:
        parts.pop()
    if not parts:
        raise NotContinuable(_("Nothing had been written that could be gone on with."))
    last = parts[-1].response
    if last is None or not may_continue(recorded(last)):
        raise NotContinuable(
            _("There is nothing to go on with: this answer is as long as it gets.")
        )
    return parts[-1].pk, "".join(part.text for part in parts), last.model


@on_database_thread
def _parts(message: Message) -> list[Message]:
    """The chain that ends with this answer, oldest first."""
    with database_errors():
        parts: list[Message] = []
        path = Message.objects.path_to(message.pk).select_related("response")
        for part in path.order_by("-position"):
            if part.role != Message.Role.ASSISTANT:
                break
            parts.append(part)
        return parts[::-1]
