"""How an ended response becomes a record, once (PROTOCOL 8): what the supervisor asks of us.

`finalize` is one transaction and safe to repeat: a row that is final is never written again, so the
worker that ended a response, one that took over, and a repair may all call it.
"""

from __future__ import annotations

import asyncio
import math
import time
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from django.db import InterfaceError, OperationalError, connection
from django.db.models import Exists, OuterRef
from django.utils import timezone

from chatapp import audit, catalog, quotas, redaction, runtime, switches, telemetry
from chatapp.middleware.threads import on_database_thread, transact
from chatapp.models import Chat, Message, Response
from chatapp.quotas import Charge
from chatapp.shown import with_pictures
from chatapp.statements import update
from relay import (
    COUNTERS,
    OTHER,
    GenerationRequest,
    Outcome,
    Record,
    RecordUnavailable,
    Status,
    UsageCount,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence

MOST_TOKENS: Final = 2**31 - 1
"""What the columns hold. A provider that says more, or less than nothing, is not to be believed;
that its answer cannot be recorded would be worse."""
_ANY_ID: Final = "any"
"""Stands for the id in a statement that is compiled once."""


@contextmanager
def database_errors() -> Iterator[None]:
    """Translate "the database is away" into relay's word for it; everything else is a bug."""
    try:
        yield
    except (OperationalError, InterfaceError) as exc:
        raise RecordUnavailable(str(exc)) from exc


def is_locked(error: RecordUnavailable) -> bool:
    """The database is well, and somebody holds this row for longer than lock_timeout: PostgreSQL's
    55P03. (SQLite has one lock for all rows.)"""
    refused = error.__cause__.__cause__ if error.__cause__ else None
    return getattr(refused, "sqlstate", None) == "55P03"


class JustAsked:
    """Requests that this process has committed a moment ago, for its own supervisor.

    Reading them back would be a third of what the database does for a question. PROTOCOL 8.1 holds
    without that look: a row becomes final by an end in its log, and such a log is not handed out to
    be run, or by a repair, which waits for much longer than `KEPT_S`.
    """

    KEPT_S: Final = 5.0

    def __init__(self) -> None:
        self._requests: dict[str, tuple[float, GenerationRequest]] = {}

    def put(self, request: GenerationRequest) -> None:
        now_s = time.monotonic()
        for response_id, (put_s, _) in list(self._requests.items()):  # oldest first
            if now_s - put_s < self.KEPT_S:
                break
            del self._requests[response_id]
        self._requests[request.response_id] = (now_s, request)

    def take(self, response_id: str) -> GenerationRequest | None:
        """Once, and only while it is fresh."""
        put_s, request = self._requests.pop(response_id, (-math.inf, None))
        return request if time.monotonic() - put_s < self.KEPT_S else None


just_asked: Final = JustAsked()


class Records:
    """relay's `Records`, kept in Django's database.

    Args:
        go_on: told whose answer has ended while messages of theirs wait, for its chat or for its
            place. A message that it does not begin is begun by the sweep.
    """

    def __init__(self, go_on: Callable[[int], Awaitable[None]] | None = None) -> None:
        self._go_on = go_on

    async def load(self, response_id: str) -> Record:
        """Raises RecordUnavailable."""
        await switches.refresh()  # the supervisor asks for the models right after this
        request = just_asked.take(response_id)
        if request is not None:
            _trace(request)
            return await _record(request)
        row = await _load(response_id)
        if row is not None and row.is_final:
            # Whoever recorded the end may have died before it was settled.
            await quotas.settle(_charge(row))
        if row is None or row.is_final:
            return Record(final=True, request=None)
        request = GenerationRequest.from_json(row.request)
        _trace(request)
        return await _record(request)

    async def finalize(self, outcome: Outcome) -> None:
        """Safe to repeat. Raises RecordUnavailable; then nothing was written.

        Raises StoreUnavailable when the record is written and what it used is not settled yet.
        """
        redacted: dict[str, Any] = {}
        if redaction.active():
            snapshot = await asyncio.to_thread(redaction.redacted, outcome.snapshot)
            redacted = redaction.difference(outcome.snapshot, snapshot)
            outcome = replace(outcome, snapshot=snapshot)
        with database_errors():
            written = await transact(partial(write, outcome, runtime.now(), redacted))
        if written is None:
            return
        if written.end is not None:
            written.end.add()
            if (traces := telemetry.current()) is not None:
                traces.generated(_traced(outcome, written.end))
        await quotas.settle(written.charge)
        if written.erased:
            await runtime.store().retire(outcome.response_id)
        if written.waited_for and self._go_on is not None:
            await self._go_on(written.charge.user_id)


def _trace(request: GenerationRequest) -> None:
    if (traces := telemetry.current()) is not None:
        traces.remember(request.response_id, request.traceparent)


def _traced(outcome: Outcome, end: Figures) -> telemetry.Ended:
    timings = outcome.snapshot.timings
    return telemetry.Ended(
        response_id=outcome.response_id,
        model=catalog.models().get(outcome.snapshot.model or end.model),
        snapshot=outcome.snapshot,
        created_at=end.created_at,
        started_at=_moment(timings.started_at),
        first_token_at=_moment(timings.first_token_at),
        ended_at=_moment(timings.ended_at) or timezone.now(),
        input_tokens=_tokens(outcome.snapshot.usage.input_tokens)
        if outcome.snapshot.usage
        else None,
        output_tokens=end.output_tokens,
    )


async def _record(request: GenerationRequest) -> Record:
    with database_errors():
        return Record(final=False, request=await with_pictures(request))


@on_database_thread
def _load(response_id: str) -> Response | None:
    with database_errors():
        columns = ("status", "request", "user_id", "created_at", "output_tokens")
        return Response.objects.filter(pk=response_id).only(*columns).first()


@on_database_thread
def final_among(response_ids: Sequence[str]) -> list[Charge]:
    """What those of them used whose records are final: perhaps nobody has settled it."""
    with database_errors():
        return [_charge(row) for row in Response.objects.final().filter(pk__in=response_ids)]


def _charge(row: Response) -> Charge:
    return Charge(row.user_id, row.pk, row.created_at, row.output_tokens or 0)


class Figures(NamedTuple):
    """An end, as metrics have it: counted once, when it is committed."""

    model: str
    status: str
    reason: str
    input_tokens: int
    output_tokens: int
    created_at: datetime
    whole_s: float
    cancel_s: float | None

    def add(self) -> None:
        figures = COUNTERS.model(self.model)
        figures.end(self.status, self.reason)
        figures.whole.observe(self.whole_s)
        figures.input_tokens += self.input_tokens
        figures.output_tokens += self.output_tokens
        if self.cancel_s is not None:
            COUNTERS.cancel.observe(self.cancel_s)


class Written(NamedTuple):
    charge: Charge
    """To be settled, if an earlier call did not."""
    waited_for: bool = False
    """Its person has messages that wait."""
    end: Figures | None = None
    """What this call has written, if it was the one that wrote."""
    erased: bool = False
    """Its content was erased while it was written: its log is content, too."""


def write(
    outcome: Outcome, now: datetime, redacted: Mapping[str, Any] | None = None
) -> Written | None:
    """The writes of one transaction: none when the row was final before. None: it is gone.

    `redacted`: what the hook made of the answer (`redaction.difference`).
    """
    snapshot, rid = outcome.snapshot, outcome.response_id
    running = _running(rid)
    if running is None:
        row = Response.objects.filter(pk=rid).first()
        return Written(_charge(row)) if row is not None else None
    columns = _columns(outcome, running)
    chat_id, erased_at = running.chat_id, running.erased_at
    if erased_at is not None:
        columns |= {"fold": "", "request": ""}
    update(Response, {"id": rid}, columns)
    if erased_at is None and chat_id is not None:
        text = plain(snapshot.text or snapshot.refusal)
        update(Message, {"response_id": rid}, {"text": text})
        update(Chat, {"id": chat_id}, {"updated_at": columns["ended_at"], "changed_at": now})
    audit.ended(
        rid,
        username=running.username,
        model=running.model,
        snapshot=snapshot,
        fold=columns["fold"],
        worker=outcome.worker,
    )
    if redacted:
        audit.redacted(rid, username=running.username, model=running.model, change=dict(redacted))
    charge = Charge(running.user_id, rid, running.created_at, columns["output_tokens"] or 0)
    figures = Figures(
        model=running.model if running.model in catalog.models() else OTHER,
        status=snapshot.status,
        reason=snapshot.reason or "",
        input_tokens=columns["input_tokens"] or 0,
        output_tokens=charge.output_tokens,
        created_at=running.created_at,
        whole_s=(columns["ended_at"] - running.created_at).total_seconds(),
        cancel_s=_cancel_s(running, columns) if snapshot.status == Status.CANCELLED else None,
    )
    return Written(charge, running.waited_for, figures, erased_at is not None)


def _cancel_s(running: _Running, columns: Mapping[str, Any]) -> float | None:
    """None where nobody asked: an abandoned answer."""
    asked_at = running.stop_requested_at
    return None if asked_at is None else (columns["ended_at"] - asked_at).total_seconds()


class _Running(NamedTuple):
    """What an end must know of its row."""

    user_id: int
    username: str
    input_price: Decimal | None
    output_price: Decimal | None
    chat_id: Any
    model: str
    created_at: datetime
    erased_at: Any
    stop_requested_at: datetime | None
    waited_for: bool


_WANTED: Final = (
    *("user_id", "user__username"),
    *("user__plan__input_price_per_mtok", "user__plan__output_price_per_mtok"),
    *("chat_id", "model", "created_at", "erased_at", "stop_requested_at", "waited_for"),
)


def _running(response_id: str) -> _Running | None:
    """Of a row that is not final, which is locked.

    Locked, so that its chat cannot be deleted between this look and the writes that follow.
    """
    sql, params = _running_statement(connection.vendor)
    with connection.cursor() as cursor:
        cursor.execute(sql, [response_id if param == _ANY_ID else param for param in params])
        row = cursor.fetchone()
    if row is None:
        return None
    user_id, username, input_price, output_price, chat_id, model, created_at, *rest = row
    erased_at, stop_requested_at, waited_for = rest
    return _Running(
        user_id=user_id,
        username=username,
        input_price=_decimal(input_price),
        output_price=_decimal(output_price),
        chat_id=chat_id,
        model=model,
        created_at=_utc(created_at),
        erased_at=erased_at,
        waited_for=bool(waited_for),
        stop_requested_at=_utc(stop_requested_at) if stop_requested_at else None,
    )


def _utc(value: datetime | str) -> datetime:
    """As a cursor gives it: SQLite has texts, without a zone."""
    moment = datetime.fromisoformat(value) if isinstance(value, str) else value
    return moment.replace(tzinfo=moment.tzinfo or UTC)


def _decimal(value: Any) -> Decimal | None:
    return None if value is None else Decimal(str(value))


@cache
def _running_statement(vendor: str) -> tuple[str, tuple[Any, ...]]:
    rows = Response.objects.running().select_for_update(of=("self",)).filter(pk=_ANY_ID)
    waiting = Response.objects.waiting().filter(user=OuterRef("user"))
    return rows.annotate(waited_for=Exists(waiting)).values_list(*_WANTED).query.sql_with_params()


def plain(text: str) -> str:
    """PostgreSQL's text knows no NUL; a model or a pasted file may well."""
    return text.replace("\0", "\N{REPLACEMENT CHARACTER}")


def _columns(outcome: Outcome, running: _Running) -> dict[str, Any]:
    snapshot = outcome.snapshot
    # An end that tells of none was written before ends did; then our own count is what there is.
    counted = UsageCount(output_tokens=outcome.counted_output_tokens, source="counted")
    usage, timings = snapshot.usage or counted, snapshot.timings
    input_tokens, output_tokens = _tokens(usage.input_tokens), _tokens(usage.output_tokens)
    answered_by = snapshot.model if snapshot.attempt else ""
    first_token_at = _moment(timings.first_token_at)
    ended_at = _moment(timings.ended_at) or timezone.now()
    return {
        "status": snapshot.status,
        "reason": snapshot.reason or "",
        "fold": snapshot.to_json().decode(),
        "story": outcome.story.to_json().decode() if outcome.story else "",
        "fold_seq": snapshot.seq,
        "fold_epoch": snapshot.epoch,
        "input_tokens": input_tokens,
        "output_tokens": output_tokens,
        "cached_input_tokens": _tokens(usage.cached_input_tokens),
        "reasoning_tokens": _tokens(usage.reasoning_tokens),
        "usage_source": usage.source,
        "counted_output_tokens": outcome.counted_output_tokens,
        "answered_by": answered_by,
        "cost": catalog.cost(
            answered_by,
            input_tokens=input_tokens,
            output_tokens=output_tokens,
            plan=(running.input_price, running.output_price),
        ),
        "delivered_seq": outcome.delivered_seq,
        "worker": outcome.worker,
        "started_at": _moment(timings.started_at),
        "first_token_at": first_token_at,
        "first_token_ms": _ms_between(running.created_at, first_token_at),
        "writing_ms": _ms_between(first_token_at, ended_at) if first_token_at else None,
        "ended_at": ended_at,
    }


def _tokens(count: int | None) -> int | None:
    return None if count is None else max(0, min(count, MOST_TOKENS))


def _ms_between(since: datetime, until: datetime | None) -> int | None:
    return None if until is None else max(0, round((until - since).total_seconds() * 1000))


def _moment(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None
