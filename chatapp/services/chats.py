"""Chats: begin one, change its settings, delete it with everything that was said in it."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final, TypedDict, Unpack

from django.db import transaction
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from chatapp import audit, catalog, runtime
from chatapp.finalize import database_errors, plain
from chatapp.middleware.threads import on_database_thread
from chatapp.models import Chat, Message, Picture, Response, User
from chatapp.models.people import is_erased
from chatapp.named import undirected
from chatapp.redaction import RedactionFailed, redact
from chatapp.services import limits
from chatapp.services.errors import BadInput, Erased, NotChecked, UnknownModel
from chatapp.services.stopping import cancel
from relay import StopReason

if TYPE_CHECKING:
    from datetime import datetime
    from uuid import UUID

TITLE_CHARS = 200
GRACE: Final = timedelta(seconds=10)
"""For a click beside the button meant: long enough to read what was deleted and to say no. And for
every open page to hear of it (chatapp/feed.py), whoever deleted it."""
REMOVED_AT_ONCE: Final = 20
"""Chats per sweep: one with running answers waits for their honest end."""


class Settings(TypedDict, total=False):
    """What of a chat its person can change. What is not given stays as it is."""

    title: str
    model: str | None
    """None: of a new chat the default one, else as it is."""
    double_text: str
    system_prompt: str
    """Empty: none."""
    temperature: float | None
    """0 to 2; None: the model's own."""
    max_output_tokens: int | None
    """Of one answer; None: the model's own limit."""
    pinned: bool


async def start_chat(*, user: User, **settings: Unpack[Settings]) -> Chat:
    """A new, empty chat. Raises BadInput, RecordUnavailable."""
    chosen = limits.require_model(settings.get("model"), user)
    now = runtime.now()
    chat = Chat(user=user, model=chosen.name, updated_at=timezone.now(), changed_at=now)
    _change(chat, settings)
    await _insert(chat)
    return chat


@on_database_thread
def _insert(chat: Chat) -> None:
    with database_errors(), transaction.atomic():
        if is_erased(chat.user_id):
            raise Erased
        chat.save(force_insert=True)


async def update_chat(*, chat: Chat, **settings: Unpack[Settings]) -> Chat:
    """Change what is given. Raises BadInput, and then nothing is changed.

    A model is asked with them from the next message on; answers that are running go on as they are.
    """
    _change(chat, settings)
    chat.changed_at = runtime.now()
    await chat.asave(update_fields=[*_columns(settings), "changed_at"])
    return chat


def _columns(settings: Settings) -> list[str]:
    columns = {"title": ["title", "titled_by"], "pinned": ["pinned_at"]}
    return [column for name in settings for column in columns.get(name, [name])]


def _change(chat: Chat, settings: Settings) -> None:
    try:
        if "title" in settings:
            settings["title"] = redact(settings["title"])
        if "system_prompt" in settings:
            settings["system_prompt"] = redact(settings["system_prompt"])
    except RedactionFailed as exc:
        raise NotChecked from exc
    if "title" in settings:
        chat.title, chat.titled_by = _title(settings["title"]), Chat.TitledBy.PERSON
        if not chat.title:
            raise BadInput(_("A chat's title must not be empty."))
    if (name := settings.get("model")) is not None:
        if name not in catalog.models():
            raise UnknownModel(name, catalog.models())
        chat.model = name
    if "double_text" in settings:
        chat.double_text = settings["double_text"]
    if "system_prompt" in settings:
        chat.system_prompt = plain(settings["system_prompt"].strip())
    if "temperature" in settings:
        chat.temperature = settings["temperature"]
    if "max_output_tokens" in settings:
        chat.max_output_tokens = settings["max_output_tokens"]
    if "pinned" in settings:
        chat.pinned_at = (chat.pinned_at or timezone.now()) if settings["pinned"] else None
    limits.check_settings(
        catalog.models().get(chat.model),
        system_prompt=chat.system_prompt if "system_prompt" in settings else "",
        temperature=chat.temperature,
        max_output_tokens=chat.max_output_tokens if "max_output_tokens" in settings else None,
    )


async def hide_chat(*, chat: Chat) -> None:
    """Delete it, but not yet: for `GRACE` it can be brought back, then the sweep removes it.

    Safe to repeat. An answer that is being written goes on until then.
    """
    there = Chat.objects.filter(pk=chat.pk, deleted_at=None)
    await there.aupdate(deleted_at=timezone.now(), changed_at=runtime.now())


async def restore_chat(*, user: User, chat_id: UUID) -> bool:
    """Bring back what was deleted a moment ago. False: it is too late, or was never there."""
    chats = Chat.objects.deleted_since(user, timezone.now() - GRACE)
    mine = chats.filter(pk=chat_id)
    return await mine.aupdate(deleted_at=None, changed_at=runtime.now()) > 0


async def remove_hidden() -> None:
    """For the sweep: what nobody brought back goes. Safe to repeat, by anybody."""
    for chat in await _hidden():
        await delete_chat(chat=chat, by=chat.user)


@on_database_thread
def _hidden() -> list[Chat]:
    with database_errors():
        gone = Chat.objects.deleted_before(timezone.now() - GRACE).select_related("user")
        return list(gone[:REMOVED_AT_ONCE])


async def delete_chat(*, chat: Chat, by: User) -> None:
    """Stop what is still being answered, then remove what was said and the content of its answers.

    The records stay, without content (law 14). Logs of ended answers are removed at once. A chat
    that pages still show is left empty for `GRACE`, for them to be told; then the sweep removes it.
    """
    for response in [
        row async for row in Response.objects.running().filter(chat=chat).order_by("-waits")
    ]:
        await cancel(response=response, by=by, reason=StopReason.USER)
    remove, now = on_database_thread(remove_chat), runtime.now()
    for response_id in await remove(chat, by.username, "chat deleted", told_at=now):
        await runtime.store().retire(response_id)


def remove_chat(chat: Chat, by: str, why: str, *, told_at: datetime | None = None) -> list[str]:
    """Remove it with all content; ids of those of its answers whose logs can be removed now.

    The others are still being written: their logs go with their ends (`Records.finalize`). With
    `told_at` an empty one stays for as long as pages may still show it, so that they hear of it.
    """
    with database_errors(), transaction.atomic():
        there = Chat.objects.select_for_update().filter(pk=chat.pk).first()
        if there is None:
            return []  # another process was faster
        rows = Response.objects.filter(chat=chat, erased_at=None)
        responses = list(rows.select_related("user"))
        rows.update(erased_at=timezone.now(), fold="", metadata="{}")
        final = Response.objects.final().filter(pk__in=[row.pk for row in responses])
        final.update(request="")
        for row in responses:
            audit.erased(row, actor=by, why=why)
        erased = list(final.values_list("pk", flat=True))
        if told_at is None or there.deleted_at is not None:
            there.delete()
        else:
            _empty(there, told_at)
        return erased


def _empty(chat: Chat, now: datetime) -> None:
    """Nothing is left of it but that it is gone."""
    chat.current, chat.title, chat.system_prompt = None, "", ""
    chat.deleted_at, chat.changed_at = timezone.now(), now
    chat.save()
    Response.objects.filter(chat=chat).update(chat=None)
    Message.objects.filter(chat=chat).delete()
    Picture.objects.filter(chat=chat).delete()


def _title(text: str) -> str:
    return plain(" ".join(undirected(text).split()))[:TITLE_CHARS]
