"""Verifying: is the trail what was sealed, and is the content what the trail says it was?

Both read as of one moment, in constant memory, beside everything else that goes on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from typing import Any, Final, NamedTuple

from django.db import connection, transaction
from django.db.models import Exists, OuterRef

from chatapp.chain import Head, Seal
from chatapp.entries import entries_after, entries_of
from chatapp.finalize import plain
from chatapp.models import AuditEvent, AuditHead, AuditSeal, Message, Response
from chatapp.shown import UNSEEN
from chatapp.verification import Finding, Verification
from relay import GenerationRequest, Snapshot

RESPONSES: Final = 500
"""Per query; each may have a megabyte of text."""
SEALS: Final = 20
"""Per round trip: 40 KB each."""


class NoSuchPosition(ValueError):
    """The chain does not reach that far."""


@contextmanager
def verification(*, since: int = 1, noted: bytes = b"") -> Iterator[Verification]:
    """A reading of chain and trail from the seal that holds position `since` on.

    While entered, this thread's connection reads as of one moment. Raises NoSuchPosition.
    """
    with _one_moment():
        row = AuditHead.objects.first()
        head = row.plain() if row else Head()
        begin, floor = _begin(since)
        seals = AuditSeal.objects.filter(number__gt=begin.number).order_by("number")
        yield Verification(
            _plain(seals.iterator(chunk_size=SEALS)),
            entries_after(floor),
            entries_of,
            head,
            begin=begin,
            floor=floor,
            noted=noted,
        )


def _plain(rows: Iterable[AuditSeal]) -> Iterator[Seal]:
    return (row.plain() for row in rows)


def _begin(since: int) -> tuple[Head, int]:
    """The chain before the seal with position `since`, and the highest id that it holds."""
    if since <= 1:
        return Head(), 0
    holding = AuditSeal.objects.filter(first__lte=since).order_by("-first").first()
    if holding is None or since >= holding.first + len(holding.ids):
        raise NoSuchPosition
    before = AuditSeal.objects.filter(number__lt=holding.number)
    last, highest = before.order_by("number").last(), before.order_by("highest_id").last()
    if last is None or highest is None:
        return Head(), 0
    position = last.first + len(last.ids) - 1
    return Head(last.number, position, last.plain().last_link), highest.highest_id


@contextmanager
def _one_moment() -> Iterator[None]:
    """A transaction that only reads: SQLite's own kind would keep everybody else from writing."""
    if connection.vendor == "sqlite" and not connection.in_atomic_block:
        with connection.cursor() as cursor:
            cursor.execute("BEGIN DEFERRED")
            try:
                yield
            finally:
                cursor.execute("ROLLBACK")
        return
    with transaction.atomic():
        if connection.vendor == "postgresql":
            with connection.cursor() as cursor:
                cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        yield


class _Told(NamedTuple):
    """What the trail says of one response's content."""

    request: str | None = None
    """SHA-256 of what was asked; None: before digests were kept."""
    content: str | None = None
    erased: bool = False
    rewritten: bool = False
    """While it waited, and it never began: its request is older than its question."""
    question: str | None = None
    """SHA-256 of the chat's message that it answers; None: before that was noted."""


class _Said(NamedTuple):
    """What a chat shows of one response."""

    answer: str
    question: str | None
    """None: it goes on from another answer."""
    dropped: bool
    """An answer to the same question was erased, and the question's text may be with it."""


class ContentCheck:
    """Compares what is stored of each ended response with the digests in the trail.

    Iterate over `findings`; then the numbers are complete.
    """

    def __init__(self) -> None:
        self.matched = 0
        self.erased = 0
        self.untold = 0
        """Recorded before the trail had digests."""
        self.uncovered = 0
        """Questions of chats without a digest of their own, compared with what was asked: of some
        (emptied, or said otherwise while they waited) nothing is known."""

    def findings(self) -> Iterator[Finding]:
        last = ""
        while rows := self._rows(last):
            told = _told([row.pk for row in rows])
            said = _said(rows)
            for row in rows:
                if row.pk in told:
                    yield from self._compare(row, told[row.pk], said.get(row.pk))
                else:  # each end is written with its entry (law 14)
                    yield Finding(f"response {row.pk}: no entry tells of it; they were removed")
            last = rows[-1].pk
        yield from _without_record()

    def _rows(self, after: str) -> list[Response]:
        rows = Response.objects.final().filter(pk__gt=after).order_by("pk")
        return list(rows.only("pk", "request", "fold", "erased_at")[:RESPONSES])

    def _compare(self, row: Response, told: _Told, said: _Said | None) -> Iterator[Finding]:
        if told.erased:
            self.erased += 1
            if row.fold or row.request:
                yield Finding(f"response {row.pk}: its content was erased, and is there")
            return
        if told.content is None and told.request is None:
            self.untold += 1
            return
        wrong = [
            what
            for what, stored, digest in (
                ("what was asked", row.request, told.request),
                ("the answer", row.fold, told.content),
            )
            if digest is not None and sha256(stored.encode()).hexdigest() != digest
        ]
        gone = "" if row.fold and row.request else "; it is gone, and no entry says why"
        if wrong:
            what = f"{' and '.join(wrong)} differs from its digest in the trail{gone}"
            yield Finding(f"response {row.pk}: {what}")
        elif said is not None and said.answer != _shown(row):
            yield Finding(f"response {row.pk}: the chat shows another text than its record has")
        elif said is not None and not self._is_question(row, told, said):
            shows = "another question than was asked"
            if not said.question:
                shows = "no question any more, and no entry says why"
            yield Finding(f"response {row.pk}: the chat shows {shows}")
        else:
            self.matched += 1

    def _is_question(self, row: Response, told: _Told, said: _Said) -> bool:
        if said.question is None or (not said.question and said.dropped):
            return True
        if told.question is not None:
            return sha256(said.question.encode()).hexdigest() == told.question
        self.uncovered += 1
        return told.rewritten or not said.question.strip() or _asks(row, said.question)


def _shown(row: Response) -> str:
    snapshot = Snapshot.from_json(row.fold)
    return plain(snapshot.text or snapshot.refusal)


def _said(rows: list[Response]) -> dict[str, _Said]:
    answers = Message.objects.filter(response__in=rows).select_related("parent")
    wanted = ("response_id", "text", "parent__role", "parent__text")
    shown = list(answers.only(*wanted))
    dropped = _with_an_erased_answer({answer.parent_id for answer in shown})
    said = {}
    for answer in shown:
        asked = answer.parent
        question = asked.text if asked and asked.role == Message.Role.USER else None
        said[str(answer.response_id)] = _Said(answer.text, question, answer.parent_id in dropped)
    return said


def _with_an_erased_answer(questions: set[int | None]) -> set[int | None]:
    """As the trail tells, which cannot be written to unseen."""
    erased = AuditEvent.objects.filter(response_id=OuterRef("response_id"), action="erased")
    answers = Message.objects.filter(Exists(erased), parent__in=questions - {None})
    return set(answers.values_list("parent_id", flat=True))


def _asks(row: Response, question: str) -> bool:
    """Whether the last question of its request is this one, with whatever stands for pictures."""
    told = GenerationRequest.from_json(row.request).messages
    content = next((one["content"] for one in reversed(told) if one["role"] == "user"), "")
    if isinstance(content, str):
        return content == question or content.endswith(f"{UNSEEN}\n\n{question}".rstrip())
    return any(part.get("text") == question for part in content)


def _told(response_ids: list[str]) -> dict[str, _Told]:
    told: dict[str, _Told] = {}
    entries = AuditEvent.objects.filter(response_id__in=response_ids).order_by("pk")
    rows: Iterable[tuple[str, str, Any]] = entries.values_list("response_id", "action", "detail")
    for pk, action, detail in rows:
        before = told.get(pk, _Told())
        told[pk] = _Told(
            request=detail.get("request_sha256", before.request),
            content=detail.get("content_sha256", before.content),
            question=detail.get("question_sha256", before.question),
            erased=before.erased or action == "erased",
            rewritten=action == "rewritten" or (before.rewritten and action != "begun"),
        )
    return told


def _without_record() -> Iterator[Finding]:
    there = Response.objects.filter(pk=OuterRef("response_id"))
    ended = AuditEvent.objects.filter(~Exists(there), action="ended").order_by("pk")
    for response_id in ended.values_list("response_id", flat=True).iterator(chunk_size=1000):
        yield Finding(f"response {response_id}: its record was removed")
