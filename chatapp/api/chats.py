"""`/api/chats`: conversations and what is said in them."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.shortcuts import aget_object_or_404
from ninja import Query, Router, Status

from chatapp import services
from chatapp.api.responses import idempotency_key, principal, taken, watches
from chatapp.api.shapes import (
    ChatIn,
    ChatList,
    ChatOut,
    ContextOut,
    MessageAccepted,
    MessageIn,
    MessageList,
    message_out,
    to_disconnect,
)
from chatapp.models import Chat, Message
from chatapp.places import will_leave_out
from chatapp.services import limits

router = Router(tags=["chats"])

Limit = Annotated[int, Query(ge=1, le=200)]


@router.get("", response=ChatList, url_name="chats")
async def list_chats(
    request: HttpRequest, before: UUID | None = None, limit: Limit = 50
) -> ChatList:
    """The newest first; `before` is the id of the last chat of the page before."""
    chats = Chat.objects.visible_to(principal(request).user)
    if before is not None:
        last = await aget_object_or_404(chats, pk=before)
        chats = chats.filter(updated_at__lt=last.updated_at)
    page = [chat async for chat in chats[: limit + 1]]
    return ChatList(
        data=[ChatOut.from_orm(chat) for chat in page[:limit]], has_more=len(page) > limit
    )


@router.post("", response={201: ChatOut})
async def start_chat(request: HttpRequest, data: ChatIn) -> Status[Chat]:
    """A new chat; without `model`, with the default one."""
    settings = data.settings()
    if not settings.get("title", "").strip():
        settings.pop("title", None)
    chat = await services.start_chat(user=principal(request).user, **settings)
    return Status(201, chat)


@router.get("/{uuid:chat_id}", response=ChatOut, url_name="chat")
async def get_chat(request: HttpRequest, chat_id: UUID) -> Chat:
    """One chat: its title, its model, and how that is asked."""
    return await own_chat(request, chat_id)


@router.patch("/{uuid:chat_id}", response=ChatOut)
async def update_chat(request: HttpRequest, chat_id: UUID, data: ChatIn) -> Chat:
    """Rename or pin it, or choose how the model is asked for what comes next."""
    chat = await own_chat(request, chat_id)
    return await services.update_chat(chat=chat, **data.settings())


@router.delete("/{uuid:chat_id}", response={204: None})
async def delete_chat(request: HttpRequest, chat_id: UUID) -> HttpResponse:
    """Removes the chat and the content of its answers; one that is running is stopped first."""
    chat = await own_chat(request, chat_id)
    await services.delete_chat(chat=chat, by=principal(request).user)
    return HttpResponse(status=204)


@router.get("/{uuid:chat_id}/messages", response=MessageList, url_name="messages")
async def list_messages(
    request: HttpRequest,
    chat_id: UUID,
    before: int | None = None,
    limit: Limit = 50,
    all: bool = False,
) -> MessageList:
    """The last ones, oldest first; `before` is the position of the first message known so far.

    Those of the branch that is shown; with `all` of every branch, each with its `parent_id`.
    """
    chat = await own_chat(request, chat_id)
    rows = Message.objects.filter(chat=chat) if all else Message.objects.path_to(chat.current_id)
    messages = rows.select_related("response").order_by("-position")
    if before is not None:
        messages = messages.before(before)
    page = [message async for message in messages[: limit + 1]]
    data = [message_out(message) for message in reversed(page[:limit])]
    return MessageList(data=data, has_more=len(page) > limit)


@router.get("/{uuid:chat_id}/context", response=ContextOut, url_name="context")
async def look_ahead(request: HttpRequest, chat_id: UUID, model: str | None = None) -> ContextOut:
    """What of the chat would be left out if a short message were sent now."""
    chat = await own_chat(request, chat_id)
    return ContextOut(sentence=await will_leave_out(chat, model or chat.model))


@router.post("/{uuid:chat_id}/messages", response={202: MessageAccepted})
async def send_message(request: HttpRequest, chat_id: UUID, data: MessageIn) -> HttpResponse:
    """Say something; the answer comes as `POST /api/responses` describes."""
    sent = await services.send_message(
        user=principal(request).user,
        chat=await own_chat(request, chat_id),
        text=data.text,
        images=limits.decoded(data.images),
        model=data.model,
        on_disconnect=to_disconnect(data.on_disconnect),
        watching=watches(request),
        idempotency_key=idempotency_key(request),
    )
    return taken(sent, made=sent.message)


async def own_chat(request: HttpRequest, chat_id: UUID) -> Chat:
    return await aget_object_or_404(Chat.objects.visible_to(principal(request).user), pk=chat_id)
