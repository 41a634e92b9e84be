"""A set of answers as a file, row by row: CSV for spreadsheets, JSON lines for programs.

Rows are read in pages that begin where the last one ended: whatever the size, memory is that of
one page, and no transaction stays open while a slow client reads.
"""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING, Any, Final

import msgspec
from django.db.models import Q

from chatapp.finalize import database_errors
from chatapp.middleware.threads import on_database_thread
from chatapp.services import story
from chatapp.services.ends import rfc3339

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from datetime import datetime

    from django.db.models import QuerySet

    from chatapp.models import Response

PAGE: Final = 200
"""Rows: some ten ms of a thread that has other things to do."""
FIGURES: Final = (
    *("id", "user", "model", "answered_by", "status", "reason", "worker"),
    *("created_at", "started_at", "first_token_at", "ended_at", "first_token_ms"),
    *("input_tokens", "cached_input_tokens", "output_tokens", "reasoning_tokens"),
    *("usage_source", "counted_output_tokens", "zombie_tokens", "cost"),
    *("fold_seq", "delivered_seq", "flag"),
)
TEXTS: Final = ("asked", "answer", "reasoning")
_RISKY: Final = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")


async def lines(rows: QuerySet[Response], *, kind: str, with_text: bool) -> AsyncIterator[bytes]:
    """`kind`: `csv`, with a line of names first, or `jsonl`. Newest first.

    Raises RecordUnavailable. Each piece is a page of whole lines.
    """
    names = (*FIGURES, *TEXTS) if with_text else FIGURES
    if kind == "csv":
        yield _csv([list(names)])
    after: tuple[datetime, str] | None = None
    while True:
        page = await _page(rows, after, with_text)
        if not page:
            return
        after = page[-1].created_at, page[-1].pk
        values = [values_of(row, with_text=with_text) for row in page]
        if kind == "csv":
            yield _csv([[guarded(one[name]) for name in names] for one in values])
        else:
            yield b"".join(msgspec.json.encode(one) + b"\n" for one in values)


@on_database_thread
def _page(
    rows: QuerySet[Response], after: tuple[datetime, str] | None, with_text: bool
) -> list[Response]:
    if after is not None:
        # Said twice, so that an index on the time alone finds the beginning.
        older = Q(created_at__lt=after[0]) | Q(created_at=after[0], pk__lt=after[1])
        rows = rows.filter(older, created_at__lte=after[0])
    left_out = ("story",) if with_text else ("story", "metadata", "fold", "request")
    rows = rows.select_related("user", "flag").defer(None).defer(*left_out)
    with database_errors():
        return list(rows.order_by("-created_at", "-pk")[:PAGE])


def values_of(row: Response, *, with_text: bool) -> dict[str, Any]:
    values = {name: getattr(row, name) for name in FIGURES if name not in ("user", "flag")}
    flag = getattr(row, "flag", None)
    values |= {"user": row.user.username, "flag": flag.note or "yes" if flag else None}
    for name, value in values.items():
        if name.endswith("_at") and value is not None:
            values[name] = rfc3339(value)
    values["cost"] = None if row.cost is None else float(row.cost)
    if with_text:
        said = story.texts(row)
        values["asked"] = next((text for role, text in reversed(said.asked) if role == "user"), "")
        values |= {"answer": said.snapshot.text, "reasoning": said.snapshot.reasoning}
    return values


def guarded(value: Any) -> str:
    """As a cell. A spreadsheet runs what begins like a formula, so that gets an apostrophe.

    https://owasp.org/www-community/attacks/CSV_Injection
    """
    if value is None:
        return ""
    if not isinstance(value, str):
        return str(value)
    return f"'{value}" if value.startswith(_RISKY) else value


def _csv(lines: list[list[str]]) -> bytes:
    text = io.StringIO()
    csv.writer(text).writerows(lines)
    return text.getvalue().encode()
