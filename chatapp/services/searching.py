"""Find answers for the staff, by whom, what and how, and by words of what was said.

A word that is a name here (an id, a user, a model, an end state, a reason) narrows by that; any
other is looked for in questions and answers. Between quotation marks everything is text. On
PostgreSQL words are matched whole by an index (migration 0018), on SQLite as parts by LIKE.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from django.db import connection
from django.db.models import Q
from django.db.models.expressions import RawSQL

from chatapp import catalog
from chatapp.models import Message, Response, User
from relay import ErrorKind, Interruption, Shortfall, Status, StopReason

if TYPE_CHECKING:
    from collections.abc import Iterable

    from django.db.models import QuerySet

REASONS: Final = sorted(
    {str(one) for kind in (StopReason, ErrorKind, Shortfall, Interruption) for one in kind}
)
MOST_HITS: Final = 2000
"""Messages. A word that is in more of them is common: then only the newest answers are tried."""
NEWEST: Final = 1000
INDEXED: Final = "to_tsvector('simple', left({}.text, 100000))"
"""As the index has it. A tsvector may have 1 MB, so of a text its beginning is indexed."""


@dataclass(slots=True)
class Wanted:
    exact: Q = field(default_factory=Q)
    words: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Found:
    rows: QuerySet[Response]
    by_text: bool
    """Words were looked for in what people said: an audit entry is due."""
    count: int = 0
    """Answers found by their words, before other filters."""
    only_newest: bool = False
    """The words are common: `NEWEST` answers were tried."""


def wanted(query: str) -> Wanted:
    """What a line of search means. One statement, for the names of users."""
    try:
        parts = shlex.split(query, posix=False)
    except ValueError:  # a quotation mark without its other
        parts = query.replace('"', " ").split()
    bare = [part for part in parts if not part.startswith('"')]
    users = _people(bare)
    models = catalog.models()
    asked = Wanted()
    for part in parts:
        if part.startswith('"'):
            asked.words.append(part.strip('"'))
        elif part.startswith("resp_"):
            asked.exact &= Q(pk=part) if len(part) > 38 else Q(pk__startswith=part)
        elif part.lower() in users:
            asked.exact &= Q(user__in=users[part.lower()])
        elif part in models:
            asked.exact &= Q(model=part) | Q(answered_by=part)
        elif part in Status.__members__.values():
            asked.exact &= Q(status=part)
        elif part in REASONS:
            asked.exact &= Q(reason=part)
        else:
            asked.words.append(part)
    asked.words = [word for word in asked.words if word.strip()]
    return asked


def _people(words: list[str]) -> dict[str, list[int]]:
    """By what people call themselves in a complaint: a user name or an address, in any case."""
    called = Q()
    for word in words:
        called |= Q(username__iexact=word) | Q(email__iexact=word)
    found: dict[str, list[int]] = {}
    if words:
        for pk, name, email in User.objects.filter(called).values_list("pk", "username", "email"):
            for word in {name.lower(), email.lower()} - {""}:
                found.setdefault(word, []).append(pk)
    return found


def search(rows: QuerySet[Response], asked: Wanted) -> Found:
    """Those of `rows` that are wanted. In memory there are never more than some thousand ids."""
    rows = rows.filter(asked.exact)
    if not asked.words:
        return Found(rows, by_text=False)
    hits = list(_matching(Message.objects.all(), asked.words)[: MOST_HITS + 1])
    if len(hits) <= MOST_HITS:
        ids = _answers_of(hits)
        return Found(rows.filter(pk__in=ids), by_text=True, count=len(ids))
    newest = rows.order_by("-created_at").values_list("pk", flat=True)[:NEWEST]
    tried = Message.objects.filter(response__in=list(newest))
    hits = [*_matching(tried, asked.words), *_matching_questions(tried, asked.words)]
    ids = _answers_of(hits)
    return Found(rows.filter(pk__in=ids), by_text=True, count=len(ids), only_newest=True)


Hit = tuple[int, str | None]
"""Message id and, of an answer, its response's."""


def _matching(messages: QuerySet[Message], words: Iterable[str]) -> QuerySet[Message, Hit]:
    return _narrowed(messages, words).order_by().values_list("pk", "response_id")


def _matching_questions(answers: QuerySet[Message], words: Iterable[str]) -> Iterable[Hit]:
    asked = Message.objects.filter(pk__in=answers.values("parent"))
    return _matching(asked, words)


def _narrowed(messages: QuerySet[Message], words: Iterable[str]) -> QuerySet[Message]:
    if connection.vendor == "postgresql":
        table = Message._meta.db_table
        query = " ".join(f'"{word}"' for word in words)
        sql = f"{INDEXED.format(table)} @@ websearch_to_tsquery('simple', %s)"
        return messages.annotate(hit=RawSQL(sql, (query,))).filter(hit=True)  # noqa: S611
    for word in words:
        messages = messages.filter(text__icontains=word)
    return messages


def _answers_of(hits: Iterable[Hit]) -> list[str]:
    """Ids of responses: of the answers themselves, and of what was answered to a question."""
    hits = list(hits)
    answers = [response_id for _, response_id in hits if response_id]
    questions = [pk for pk, response_id in hits if response_id is None]
    below = Message.objects.filter(parent__in=questions, response__isnull=False)
    return [*answers, *below.values_list("response_id", flat=True)]
