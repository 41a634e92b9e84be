"""One chat as a file: Markdown to read, JSON with all that is known of it."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final

from chatapp.attached import named_plainly
from chatapp.finalize import database_errors
from chatapp.middleware.threads import on_database_thread
from chatapp.models import Chat, Message, Picture
from chatapp.pictures import data_url
from chatapp.services.ends import rfc3339
from chatapp.services.reading import recorded
from chatapp.services.transcript import shown_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from relay import Snapshot

NAME_CHARS: Final = 60
SCHEMA: Final = 1
"""Of the JSON. Fields may be added; a reader ignores what it does not know."""
_MARKS: Final = re.compile(r"[\\`*_\[\]<>&#|~$]")
"""What a title may be taken for where the file is shown: emphasis, links, HTML."""
_ESCAPED: Final = r"\\\g<0>"


async def as_markdown(*, chat: Chat) -> str:
    """What the page shows of it. Raises RecordUnavailable."""
    return await _markdown(chat)


async def as_json(*, chat: Chat) -> str:
    """All messages, also those of other branches. Raises RecordUnavailable."""
    return await _json(chat)


def file_name(chat: Chat, kind: str) -> str:
    """From its title, for every file system: letters, digits, hyphens."""
    words = re.sub(r"[\W_]+", "-", chat.title).strip("-")[:NAME_CHARS].strip("-")
    return f"{words or 'chat'}.{kind}"


@on_database_thread
def _markdown(chat: Chat) -> str:
    with database_errors():
        messages = list(shown_of(chat).select_related("response").order_by("position"))
    return markdown_of(chat, messages)


def markdown_of(chat: Chat, messages: Iterable[Message]) -> str:
    parts = [f"# {_MARKS.sub(_ESCAPED, ' '.join(chat.title.split())) or 'New chat'}"]
    parts.append(f"*Begun {chat.created_at:%Y-%m-%d %H:%M} UTC with {chat.model}.*")
    if chat.system_prompt:
        parts += ["## System prompt", chat.system_prompt]
    begun, text = 0, ""  # where the last answer stands: what goes on with it takes its place
    for message in messages:
        response = message.response
        if response is None:
            pictures = [
                f"*A picture, {p['width']} by {p['height']} pixels.*" for p in message.pictured
            ]
            parts += ["## You", *pictures, *filter(None, [named_plainly(message.text)])]
            begun, text = 0, ""
            continue
        if begun:
            del parts[begun:]
        begun, text, snapshot = len(parts), text + message.text, recorded(response)
        parts += [f"## {snapshot.model}", *_answer(text, snapshot)]
    return "\n\n".join(parts) + "\n"


def _answer(text: str, snapshot: Snapshot) -> list[str]:
    parts = [text] if text else []
    parts += [f"*Called {call.name}.*" for call in snapshot.tool_calls]
    if snapshot.status != "completed":
        reason = f" ({snapshot.reason})" if snapshot.reason else ""
        parts.append(f"*This answer is {str(snapshot.status).replace('_', ' ')}{reason}.*")
    return parts


@on_database_thread
def _json(chat: Chat) -> str:
    with database_errors():
        rows = Message.objects.filter(chat=chat).select_related("response")
        messages = list(rows.order_by("position"))
        kept = Picture.objects.filter(chat=chat).values_list("pk", "media_type", "data")
        pictures = {pk: data_url(kind, bytes(data)) for pk, kind, data in kept}
    return json.dumps(json_of(chat, messages, pictures), ensure_ascii=False, indent=2) + "\n"


def json_of(chat: Chat, messages: Iterable[Message], pictures: dict[int, str]) -> dict[str, Any]:
    """`pictures`: data URLs by id."""
    return {
        "schema": SCHEMA,
        "id": str(chat.pk),
        "title": chat.title,
        "model": chat.model,
        "system_prompt": chat.system_prompt,
        "temperature": chat.temperature,
        "max_output_tokens": chat.max_output_tokens,
        "created_at": rfc3339(chat.created_at),
        "updated_at": rfc3339(chat.updated_at),
        "current": chat.current_id,
        "messages": [_message(message, pictures) for message in messages],
    }


def _message(message: Message, pictures: dict[int, str]) -> dict[str, Any]:
    said: dict[str, Any] = {
        "id": message.pk,
        "parent": message.parent_id,
        "position": message.position,
        "role": message.role,
        "text": message.text,
        "created_at": rfc3339(message.created_at),
    }
    if (response := message.response) is None:
        shown = [pictures[one["id"]] for one in message.pictured if one["id"] in pictures]
        return said | {"images": shown} if shown else said
    snapshot = json.loads(recorded(response).to_json())
    names = ("status", "reason", "model", "reasoning", "refusal", "tool_calls", "usage", "timings")
    about = {name: snapshot.get(name) for name in names}
    left_out = {"left_out": response.left_out} if response.left_out else {}
    return said | {"response_id": response.pk, **about, **left_out}
