"""Entries of the trail as the chain sees them, from either database, a few thousand at a time.

Not through Django's models: verifying reads millions, and a text that a changed byte has made
unreadable must be told of, not raised. What a database keeps in its own way (a time, JSON) is
brought into one form, so that a trail that moves from SQLite to PostgreSQL is still what was
sealed; what cannot be read like that counts as it stands.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

import msgspec
from django.db import connection

from chatapp.chain import Entry

if TYPE_CHECKING:
    from collections.abc import Callable

FETCH: Final = 5_000
"""Rows per round trip: about 2 MB here, and past that no faster."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_TEXTS: Final = ("actor", "action", "response_id", "username", "model", "status")
_POSTGRESQL: Final = (
    "id, CASE WHEN isfinite(at) THEN (extract(epoch FROM at) * 1000000)::bigint::text "
    "ELSE at::text END, " + ", ".join(_TEXTS) + ", detail::text"
)
# As bytes: what is not UTF-8 any more could not be fetched as text.
_SQLITE: Final = "id, " + ", ".join(f"CAST({name} AS BLOB)" for name in ("at", *_TEXTS, "detail"))


def entries_after(entry_id: int) -> Iterator[Entry]:
    """All with a higher id, by id, in constant memory. Inside a transaction on PostgreSQL."""
    return _read("WHERE id > %s ORDER BY id", [entry_id])


def next_entries(entry_id: int, limit: int) -> list[Entry]:
    """The first with a higher id."""
    return list(_read("WHERE id > %s ORDER BY id LIMIT %s", [entry_id, limit], stream=False))


def entries_between(lowest: int, highest: int, limit: int) -> list[Entry]:
    tail = "WHERE id BETWEEN %s AND %s ORDER BY id LIMIT %s"
    return list(_read(tail, [lowest, highest, limit], stream=False))


def entries_of(entry_ids: Sequence[int]) -> Iterator[Entry]:
    """Those of the given ids that are there."""
    for start in range(0, len(entry_ids), 500):
        some = list(entry_ids[start : start + 500])
        marks = ", ".join(["%s"] * len(some))
        yield from _read(f"WHERE id IN ({marks})", some, stream=False)


def microseconds(moment: datetime) -> int:
    """Since 1970."""
    return (moment - _EPOCH) // _MICROSECOND


def _read(tail: str, params: Sequence[Any], *, stream: bool = True) -> Iterator[Entry]:
    connection.ensure_connection()
    raw: Any = connection.connection
    if connection.vendor == "postgresql":
        sql, entry = f"SELECT {_POSTGRESQL} FROM chatapp_auditevent {tail}", _from_postgresql  # noqa: S608 - our own words
        cursor = raw.cursor("trail") if stream else raw.cursor()
    else:
        sql, entry = f"SELECT {_SQLITE} FROM chatapp_auditevent {tail}", _from_sqlite  # noqa: S608 - our own words
        sql, cursor = sql.replace("%s", "?"), raw.cursor()
    with closing(cursor):
        cursor.execute(sql, params)
        while rows := cursor.fetchmany(FETCH):
            yield from map(entry, rows)


_decode: Final[Callable[[str | bytes], Any]] = msgspec.json.Decoder().decode
_encode: Final[Callable[[Any], bytes]] = msgspec.json.Encoder(order="sorted").encode


def _from_postgresql(row: Sequence[Any]) -> Entry:
    number, *texts, detail = row
    # jsonb was parsed when it was written: what it says is JSON.
    return Entry._make((number, *[text.encode() for text in texts], _encode(_decode(detail))))


def _from_sqlite(row: Sequence[Any]) -> Entry:
    number, at, *texts, detail = (b"" if cell is None else cell for cell in row)
    return Entry._make((number, _moment(at), *texts, _json(detail)))


def _moment(text: bytes) -> bytes:
    try:
        moment = datetime.fromisoformat(text.decode())
    except ValueError:
        return text
    if moment.tzinfo is not None or str(moment).encode() != text:
        return text  # not as Django writes it
    return b"%d" % microseconds(moment.replace(tzinfo=UTC))


def _json(text: bytes) -> bytes:
    """Strictly as Django writes it: spaces, or a name that is there twice, are changes, too."""
    try:
        value = json.loads(text)
        if json.dumps(value).encode() != text:
            return text
        return _encode(value)
    except (ValueError, TypeError, RecursionError):
        return text
