"""A chat's name from a model, after its first answer, in the background.

Whoever runs generations does it, a few at a time and outside of anybody's limits; a person's own
title wins whenever it comes. A chat is tried once: what goes wrong leaves its first words as its
name. What a name has used is in the audit trail.
"""

from __future__ import annotations

import asyncio
import logging
import re
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from django.conf import settings
from django.db import transaction
from django.utils import timezone

import relay
from chatapp import audit, runtime, switches
from chatapp.finalize import database_errors, plain
from chatapp.middleware.threads import on_database_thread
from chatapp.models import Chat, Message
from chatapp.named import undirected
from relay import GenerationRequest, UpstreamError, new_response_id, now_rfc3339

if TYPE_CHECKING:
    from datetime import datetime
    from uuid import UUID

    from relay import Event, ModelConfig, Snapshot, Upstream

logger = logging.getLogger(__name__)

INSTRUCTIONS: Final = (
    "You name conversations. Answer with a name of two to six words for the conversation that you "
    "are shown, in its language, and with nothing else: no quotation marks, no full stop."
)
TITLE_TOKENS: Final = 40
"""Six words of any language."""
LONGEST_S: Final = 20.0
"""A name that takes longer comes too late to be of use."""
TITLE_CHARS: Final = 60
RAMBLING_CHARS: Final = 100
"""A model that says this much has not understood; a part of it is no name."""
SHOWN_CHARS: Final = 1500
"""Of the question and of the answer."""
AT_ONCE: Final = 4
"""Names that a worker asks for side by side: answers come first."""
FRESH: Final = timedelta(hours=1)
"""Chats that were written in for the last time before that keep their names, as when titles are
turned on after a year."""


@dataclass(frozen=True, slots=True)
class Untitled:
    chat_id: UUID
    model: str
    username: str
    question: str
    answer: str


class Titles:
    """Call it again and again, like a sweep."""

    def __init__(self, upstream: Upstream) -> None:
        self._upstream = upstream

    async def __call__(self) -> None:
        """One round. Raises RecordUnavailable."""
        if settings.TITLES:
            await switches.refresh()
            await asyncio.gather(*(self._name(chat) for chat in await _claimed()))

    async def _name(self, chat: Untitled) -> None:
        model = asked(settings.TITLE_MODEL or chat.model)
        if model is None:
            return
        try:
            async with asyncio.timeout(LONGEST_S):
                said = await self._ask(model, chat)
        except (UpstreamError, TimeoutError) as exc:
            logger.info("chat %s keeps its first words as its name: %s", chat.chat_id, exc)
            return
        await _store(chat, model.name, said, runtime.now())

    async def _ask(self, model: ModelConfig, chat: Untitled) -> Snapshot:
        shown = f"Question:\n{chat.question}\n\nAnswer:\n{chat.answer}\n\nThe name:"
        request = GenerationRequest(
            response_id=new_response_id(),
            model=model.name,
            messages=[{"role": "user", "content": shown}],
            created_at=now_rfc3339(),
            instructions=INSTRUCTIONS,
            max_output_tokens=TITLE_TOKENS,
        )
        events: list[Event] = []
        async with self._upstream.open(request, model) as call:
            async for more in call:
                events += more
        return relay.fold(events)


def asked(name: str) -> ModelConfig | None:
    """The model of this name, or the first of its fallbacks where operators have switched it so.
    None: nobody is to be asked."""
    models = switches.models()
    named = models.get(name)
    if named is None:
        return None
    of_them = (named, *(models[other] for other in named.fallback))
    return next((model for model in of_them if not model.resting), None)


def title_in(text: str) -> str:
    """A name out of what a model said; empty if that is none."""
    lines = [line for line in text.strip().splitlines() if line.strip()]
    if not lines or len(lines[0]) > RAMBLING_CHARS:
        return ""
    name = re.sub(r"^(title|name)\s*:\s*", "", lines[0].strip(" \t#*"), flags=re.IGNORECASE)
    name = plain(" ".join(undirected(name).split()).strip(" \"'“”„«»`*#").rstrip(".:"))
    if len(name) > TITLE_CHARS:
        name = name[:TITLE_CHARS].rsplit(" ", 1)[0] + "…"
    return name if any(c.isalnum() for c in name) else ""


@on_database_thread
def _claimed() -> list[Untitled]:
    """Chats to be named, each given to one process only."""
    claimed = []
    with database_errors():
        fresh = Chat.objects.untitled_since(timezone.now() - FRESH)
        rows = fresh.values_list("pk", "model", "user__username", "updated_at")[:AT_ONCE]
        for pk, model, username, _ in list(rows):
            mine = Chat.objects.filter(pk=pk, titled_by=Chat.TitledBy.WORDS)
            if mine.update(titled_by=Chat.TitledBy.NOBODY):
                said = Message.objects.filter(chat=pk).exclude(text="").order_by("position")
                texts = list(said.values_list("text", flat=True)[:2])
                question, answer = (*(text[:SHOWN_CHARS] for text in texts), "", "")[:2]
                claimed.append(Untitled(pk, model, username, question, answer))
    return claimed


@on_database_thread
def _store(chat: Untitled, model: str, said: Snapshot, now: datetime) -> None:
    with database_errors(), transaction.atomic():
        if title := title_in(said.text):
            unnamed = Chat.objects.filter(pk=chat.chat_id, titled_by=Chat.TitledBy.NOBODY)
            unnamed.update(title=title, titled_by=Chat.TitledBy.MODEL, changed_at=now)
        audit.titled(
            str(chat.chat_id), username=chat.username, model=model, done=bool(title), snapshot=said
        )
