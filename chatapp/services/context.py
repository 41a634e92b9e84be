"""What the next message of a chat will leave out, said before it is sent."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from chatapp import catalog
from chatapp.finalize import database_errors
from chatapp.middleware.threads import on_database_thread
from chatapp.models import Message
from chatapp.services.fitting import Turn
from chatapp.services.writing import fitted, turns_of
from relay import Disconnect, GenerationRequest, token_counter

if TYPE_CHECKING:
    from chatapp.models import Chat
    from relay import ModelConfig


@dataclass(frozen=True, slots=True)
class Outlook:
    model: str
    left_out: int
    """Messages, the oldest; 0: all go."""
    shown_from: int


async def ready_to_count(model: ModelConfig | None) -> None:
    """Read the model's tokenizer, if its file is known, so that no transaction waits for that."""
    if model is not None and model.tokenizer is not None:
        await asyncio.to_thread(token_counter, model)


async def outlook(*, chat: Chat, model: str | None = None, text: str = "") -> Outlook:
    """What would be left out if `text` were sent to `model` now. Nothing is written.

    Raises RecordUnavailable.
    """
    name = model or chat.model
    config = catalog.models().get(name)
    if config is None or config.context_tokens is None:
        return Outlook(name, 0, 0)
    await ready_to_count(config)
    return await _outlook(chat, name, text)


@on_database_thread
def _outlook(chat: Chat, model: str, text: str) -> Outlook:
    with database_errors():
        turns = turns_of(Message.objects.path_to(chat.current_id).said())
    position = turns[-1].position + 1 if turns else 1
    shown = fitted(request_in(chat, model), [*turns, Turn(position, Message.Role.USER, text)])
    return Outlook(model, shown.left_out, shown.shown_from)


def request_in(chat: Chat, model: str) -> GenerationRequest:
    """As far as the chat's own settings say it."""
    return GenerationRequest(
        response_id="",
        model=model,
        messages=[],
        created_at="",
        instructions=chat.system_prompt or None,
        max_output_tokens=chat.max_output_tokens,
        temperature=chat.temperature,
        on_disconnect=Disconnect(),
    )
