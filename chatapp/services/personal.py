"""Everything that is kept of one person, as a zip file that is written while it is read.

    account.json     who they are here, their keys (not their secrets) and preferences
    chats/<id>.json  every chat with all branches and pictures, as the page exports one
    answers.jsonl    one line per answer: figures, what was asked, what was answered
    trail.jsonl      what the audit trail says of them

A chat at a time is in memory, whatever the size of the whole.
"""

from __future__ import annotations

import json
import zipfile
from typing import TYPE_CHECKING, Any, Final

from django.db.models import Q

from chatapp import audit
from chatapp.finalize import database_errors
from chatapp.middleware.threads import on_database_thread
from chatapp.models import ApiKey, AuditEvent, Chat, Response, User
from chatapp.services.ends import rfc3339
from chatapp.services.exporting import as_json

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from datetime import datetime
    from uuid import UUID

ROWS: Final = 200
"""Answers or entries per query; an answer may have a megabyte."""
PREFERENCES: Final = ("theme", "language", "announces", "enter_sends", "keeps_answering")
FIGURES: Final = (
    *("model", "answered_by", "status", "reason", "usage_source"),
    *("input_tokens", "cached_input_tokens", "output_tokens", "reasoning_tokens"),
    *("counted_output_tokens", "zombie_tokens", "delivered_seq"),
)
MOMENTS: Final = ("created_at", "started_at", "first_token_at", "ended_at", "erased_at")


class _Pipe:
    """What a zip file is written into: kept until it is fetched. It cannot be sought in."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def write(self, data: bytes) -> int:
        self._parts.append(bytes(data))
        return len(data)

    def flush(self) -> None:
        """There is nothing behind it."""

    def close(self) -> None:
        """It stays open for what is left to be fetched."""

    def fetch(self) -> bytes:
        data = b"".join(self._parts)
        self._parts.clear()
        return data


async def export_user(*, user: User, by: str) -> AsyncIterator[bytes]:
    """The file, in pieces. Noted in the trail before the first one. `by`: as in `erase_user`.

    Raises RecordUnavailable, also in the middle: the file is then cut short and no zip file.
    """
    await _note(user, by)
    pipe = _Pipe()
    with zipfile.ZipFile(pipe, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("account.json", _text(await _account(user)))
        yield pipe.fetch()
        for chat_id in await _chat_ids(user):
            chat = await Chat.objects.filter(pk=chat_id).afirst()
            if chat is not None:
                file.writestr(f"chats/{chat_id}.json", await as_json(chat=chat))
                yield pipe.fetch()
        for name, rows in (("answers.jsonl", _answers), ("trail.jsonl", _trail)):
            last: Any = "" if rows is _answers else 0
            with file.open(name, "w") as lines:
                while True:
                    last, some = await rows(user, last)
                    if not some:
                        break
                    for one in some:
                        lines.write(json.dumps(one, ensure_ascii=False).encode() + b"\n")
                    yield pipe.fetch()
    yield pipe.fetch()


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2) + "\n"


@on_database_thread
def _note(user: User, by: str) -> None:
    with database_errors():
        audit.person_exported(user.username, actor=by)


@on_database_thread
def _account(user: User) -> dict[str, Any]:
    with database_errors():
        keys = ApiKey.objects.filter(user=user).order_by("pk")
        return {
            "username": user.username,
            "email": user.email,
            "name": user.get_full_name(),
            "plan": user.plan.name if user.plan else None,
            "joined_at": _moment(user.date_joined),
            "last_login_at": _moment(user.last_login),
            "preferences": {name: getattr(user, name) for name in PREFERENCES},
            "api_keys": [
                {
                    "name": key.name,
                    "prefix": key.prefix,
                    "created_at": _moment(key.created_at),
                    "last_used_at": _moment(key.last_used_at),
                    "revoked_at": _moment(key.revoked_at),
                }
                for key in keys
            ],
        }


@on_database_thread
def _chat_ids(user: User) -> list[UUID]:
    with database_errors():
        return list(Chat.objects.filter(user=user).values_list("pk", flat=True))


@on_database_thread
def _answers(user: User, after: str) -> tuple[str, list[dict[str, Any]]]:
    with database_errors():
        rows = list(Response.objects.filter(user=user, pk__gt=after).order_by("pk")[:ROWS])
    return rows[-1].pk if rows else after, [_answer(row) for row in rows]


def _answer(row: Response) -> dict[str, Any]:
    return {
        "id": row.pk,
        "chat": str(row.chat_id) if row.chat_id else None,
        **{name: getattr(row, name) for name in FIGURES},
        **{name: _moment(getattr(row, name)) for name in MOMENTS},
        "cost": str(row.cost) if row.cost is not None else None,
        "metadata": json.loads(row.metadata),
        "asked": json.loads(row.request) if row.request else None,
        "answer": json.loads(row.fold) if row.fold else None,
    }


@on_database_thread
def _trail(user: User, after: int) -> tuple[int, list[dict[str, Any]]]:
    mine = Q(username=user.username) | Q(actor=user.username)
    with database_errors():
        rows = list(AuditEvent.objects.filter(mine, pk__gt=after).order_by("pk")[:ROWS])
    said = [
        {
            "at": rfc3339(row.at),
            "actor": row.actor,
            "action": row.action,
            "response_id": row.response_id,
            "username": row.username,
            "model": row.model,
            "status": row.status,
            "detail": row.detail,
        }
        for row in rows
    ]
    return rows[-1].pk if rows else after, said


def _moment(moment: datetime | None) -> str | None:
    return rfc3339(moment) if moment is not None else None
