"""Chats: begin one, rename it, delete it with everything that was said in it."""

from __future__ import annotations

from django.db import transaction
from django.utils import timezone

from chatapp import audit, catalog, runtime
from chatapp.finalize import database_errors, plain
from chatapp.middleware.threads import on_database_thread
from chatapp.models import Chat, Response, User
from chatapp.services import limits
from chatapp.services.errors import BadInput, UnknownModel
from chatapp.services.stopping import cancel
from relay import StopReason

TITLE_CHARS = 200


async def start_chat(
    *,
    user: User,
    model: str | None = None,
    title: str = "",
    double_text: str = Chat.DoubleText.REJECT,
) -> Chat:
    """A new, empty chat with this model, or with the default one."""
    chosen = limits.require_model(model, user)
    return await Chat.objects.acreate(
        user=user,
        model=chosen.name,
        title=_title(title),
        double_text=double_text,
        updated_at=timezone.now(),
    )


async def update_chat(
    *,
    chat: Chat,
    title: str | None = None,
    model: str | None = None,
    double_text: str | None = None,
) -> Chat:
    """Rename a chat, choose another model, or what a message does while an answer is written."""
    if title is not None:
        chat.title = _title(title)
        if not chat.title:
            raise BadInput("A chat's title must not be empty.")
    if model is not None:
        if model not in catalog.models():
            raise UnknownModel(model, catalog.models())
        chat.model = model
    if double_text is not None:
        chat.double_text = double_text
    await chat.asave(update_fields=["title", "model", "double_text"])
    return chat


async def delete_chat(*, chat: Chat, by: User) -> None:
    """Stop what is still being answered, then remove the chat and the content of its answers.

    The records stay, without content (law 14). Logs of ended answers are removed at once.
    """
    for response in [
        row async for row in Response.objects.running().filter(chat=chat).order_by("-waits")
    ]:
        await cancel(response=response, by=by, reason=StopReason.USER)
    for response_id in await _delete(chat, by.username):
        await runtime.store().retire(response_id)


@on_database_thread
def _delete(chat: Chat, by: str) -> list[str]:
    with database_errors(), transaction.atomic():
        rows = Response.objects.filter(chat=chat, erased_at=None)
        responses = list(rows.select_related("user"))
        rows.update(erased_at=timezone.now(), fold="", metadata="{}")
        final = Response.objects.final().filter(pk__in=[row.pk for row in responses])
        final.update(request="")
        for row in responses:
            audit.erased(row, actor=by)
        chat.delete()
        return list(final.values_list("pk", flat=True))


def _title(text: str) -> str:
    return plain(" ".join(text.split()))[:TITLE_CHARS]
