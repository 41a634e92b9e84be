"""Forms at each turn: edit, rewrite, regenerate, continue, choose; then the chat's page again.

The page uses them with scripts as well: what they lead to is rendered whole by the server, and an
answer that runs is followed from there.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from django.shortcuts import aget_object_or_404, redirect
from django.urls import reverse

from chatapp import services
from chatapp.models import Message, User
from chatapp.views import TROUBLES, Typed, chat_page, person, policy_of, signed_in

if TYPE_CHECKING:
    from django.http import HttpRequest, HttpResponse

    Verb = Callable[[Message, User, Typed], Awaitable[int]]


@signed_in
async def message_edit(request: HttpRequest, message_id: int) -> HttpResponse:
    async def edit(message: Message, by: User, typed: Typed) -> int:
        sent = await services.edit_message(
            message=message,
            by=by,
            text=typed.text,
            model=typed.model,
            on_disconnect=policy_of(by),
            idempotency_key=typed.key_for("edit", message_id),
        )
        return sent.message.pk

    return await _do(request, message_id, "edit", edit)


@signed_in
async def message_rewrite(request: HttpRequest, message_id: int) -> HttpResponse:
    """What waits for another answer says something else from now on."""

    async def rewrite(message: Message, by: User, typed: Typed) -> int:
        return (await services.rewrite(message=message, by=by, text=typed.text)).pk

    return await _do(request, message_id, "rewrite", rewrite)


@signed_in
async def message_regenerate(request: HttpRequest, message_id: int) -> HttpResponse:
    async def regenerate(message: Message, by: User, typed: Typed) -> int:
        sent = await services.regenerate(
            message=message,
            by=by,
            model=typed.model,
            on_disconnect=policy_of(by),
            idempotency_key=typed.key_for("regenerate", message_id),
        )
        return sent.answer.pk

    return await _do(request, message_id, "regenerate", regenerate)


@signed_in
async def message_continue(request: HttpRequest, message_id: int) -> HttpResponse:
    async def go_on(message: Message, by: User, typed: Typed) -> int:
        sent = await services.continue_answer(
            message=message,
            by=by,
            on_disconnect=policy_of(by),
            idempotency_key=typed.key_for("continue", message_id),
        )
        return sent.answer.pk

    return await _do(request, message_id, "continue", go_on)


@signed_in
async def message_choose(request: HttpRequest, message_id: int) -> HttpResponse:
    """Its branch is shown from now on; who has `found` it by its words is led to the place."""

    async def choose(message: Message, by: User, typed: Typed) -> int:
        await services.choose(message=message)
        return message.pk

    return await _do(request, message_id, "choose", choose)


async def _do(request: HttpRequest, message_id: int, name: str, verb: Verb) -> HttpResponse:
    user, typed = await person(request), Typed.of(request)
    mine = Message.objects.visible_to(user).select_related("chat", "response")
    if request.method != "POST":  # back from signing in, where the form led
        message = await mine.filter(pk=message_id).afirst()
        return redirect("home") if message is None else redirect(_at(message))
    message = await aget_object_or_404(mine, pk=message_id)
    try:
        shown = await verb(message, user, typed)
    except TROUBLES as exc:
        edited = (message_id, typed.text) if name in ("edit", "rewrite") else None
        return await chat_page(request, user, message.chat, Typed(), exc, name, edited=edited)
    return redirect(_found(message) if "found" in request.POST else _at(message, shown))


def _at(message: Message, shown: int | None = None) -> str:
    page = reverse("chat", args=[message.chat_id])
    return f"{page}#turn-{shown or message.pk}"


def _found(message: Message) -> str:
    """Where a search leads to: it is marked there."""
    page = reverse("chat", args=[message.chat_id])
    return f"{page}?at={message.position}#message-{message.pk}"
