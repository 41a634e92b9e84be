"""`/api/messages`: other versions of what was said, answers that go on, and which branch is shown.

What asks a model answers 202 as `POST /api/responses` does, in the events of the same reply with
`Accept: text/event-stream`.
"""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import aget_object_or_404
from ninja import Router

from chatapp import services
from chatapp.api.responses import idempotency_key, principal, taken, watches
from chatapp.api.shapes import (
    ContinueIn,
    EditIn,
    MessageAccepted,
    MessageOut,
    RegenerateIn,
    RewriteIn,
    Shown,
    message_out,
    to_disconnect,
)
from chatapp.models import Message

router = Router(tags=["messages"])


@router.patch("/{message_id}", response=MessageOut, url_name="message")
async def rewrite(request: HttpRequest, message_id: int, data: RewriteIn) -> MessageOut:
    """Change a message that waits for the end of another answer; 409 once its answer has begun."""
    message = await own_message(request, message_id)
    by = principal(request).user
    return message_out(await services.rewrite(message=message, by=by, text=data.text))


@router.post("/{message_id}/edit", response={202: MessageAccepted})
async def edit(request: HttpRequest, message_id: int, data: EditIn) -> HttpResponse:
    """Say it otherwise: a version beside the message, answered anew."""
    sent = await services.edit_message(
        message=await own_message(request, message_id),
        by=principal(request).user,
        text=data.text,
        model=data.model,
        on_disconnect=to_disconnect(data.on_disconnect),
        watching=watches(request),
        idempotency_key=idempotency_key(request),
    )
    return taken(sent, made=sent.message)


@router.post("/{message_id}/regenerate", response={202: MessageAccepted})
async def regenerate(request: HttpRequest, message_id: int, data: RegenerateIn) -> HttpResponse:
    """Another answer to the same question, beside the one there is."""
    sent = await services.regenerate(
        message=await own_message(request, message_id),
        by=principal(request).user,
        model=data.model,
        on_disconnect=to_disconnect(data.on_disconnect),
        watching=watches(request),
        idempotency_key=idempotency_key(request),
    )
    return taken(sent, made=sent.answer)


@router.post("/{message_id}/continue", response={202: MessageAccepted}, url_name="continue")
async def go_on(request: HttpRequest, message_id: int, data: ContinueIn) -> HttpResponse:
    """The rest of an answer that broke off; only what is new is in its events."""
    sent = await services.continue_answer(
        message=await own_message(request, message_id),
        by=principal(request).user,
        on_disconnect=to_disconnect(data.on_disconnect),
        watching=watches(request),
        idempotency_key=idempotency_key(request),
    )
    return taken(sent, made=sent.answer)


@router.post("/{message_id}/choose", response=Shown)
async def choose(request: HttpRequest, message_id: int) -> Shown:
    """Show the branch that leads through this message, and go on from there."""
    message = await own_message(request, message_id)
    return Shown(chat_id=message.chat_id, message_id=await services.choose(message=message))


async def own_message(request: HttpRequest, message_id: int) -> Message:
    """Raises Http404, for somebody else's as for nobody's."""
    mine = Message.objects.visible_to(principal(request).user)
    return await aget_object_or_404(mine.select_related("chat", "response"), pk=message_id)
