"""What has changed of people's chats: for open pages, on whichever device they are.

The database is asked, so nothing has to be told to anybody and nothing can be missed: whatever
changes a chat says when (`Chat.changed_at`, by the store's clock). A transaction becomes visible
after its moment; so each look begins `LATE` before the last, and who looks tells repeats apart.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from django.db.models import OuterRef, Subquery

from chatapp.finalize import database_errors
from chatapp.middleware.threads import on_database_thread
from chatapp.models import Chat, Response

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

LATE: Final = timedelta(seconds=10)
"""Longest time from a change's moment until it can be read: a busy database's commit."""
MOST: Final = 50
"""Of one person at a time: a page of the list. Whoever missed more loads the list anew."""


@dataclass(frozen=True, slots=True)
class Change:
    """A chat as it is now."""

    id: str
    title: str
    titled_by: str
    pinned: bool
    deleted: bool
    """It may come back for some seconds."""
    running: str | None
    """The response that is being written."""
    last: int | None
    """The last message of the branch that is shown."""
    response: str | None
    """The answer that `last` is, and how it stands."""
    status: str | None
    written: int
    """When somebody last wrote in it, in milliseconds: the order of the list."""
    at: int
    """When it changed, in milliseconds of the store's clock: a cursor."""

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


_COLUMNS: Final = (
    *("user_id", "id", "title", "titled_by", "pinned_at", "deleted_at", "running"),
    *("current_id", "current__response_id", "current__response__status", "updated_at"),
    "changed_at",
)


@on_database_thread
def changed_chats(
    *, users: Collection[int], since: datetime, limit: int | None = None
) -> list[tuple[int, Change]]:
    """By person, the latest last. One statement however many people. Raises RecordUnavailable."""
    running = Response.objects.begun().filter(chat=OuterRef("pk")).values("pk")[:1]
    chats = Chat.objects.filter(user__in=users).changed_since(since - LATE)
    rows = chats.annotate(running=Subquery(running)).order_by("-changed_at").values_list(*_COLUMNS)
    with database_errors():
        return list(_read(rows[:limit]))[::-1]


def moment(cursor: int) -> datetime:
    """Raises ValueError, OverflowError or OSError for a number that is no time."""
    return datetime.fromtimestamp(cursor / 1000, UTC)


def cursor(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)


def _read(rows: Any) -> Iterator[tuple[int, Change]]:
    for user, pk, title, by, pinned, deleted, running, *more in rows:
        last, response, status, written, changed = more
        yield (
            user,
            Change(
                id=str(pk),
                title=title,
                titled_by=by,
                pinned=pinned is not None,
                deleted=deleted is not None,
                running=running,
                last=last,
                response=response,
                status=status,
                written=cursor(written),
                at=cursor(changed),
            ),
        )
