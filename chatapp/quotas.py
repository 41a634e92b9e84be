"""What a person may have running and use up in a day: their plan's terms, kept in the store.

Reserve before anything is written, settle when the record is final, release what never ran
(PROTOCOL 11). A plan is read with its person, never by a query of its own, and counts from the next
request on.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from chatapp import catalog, runtime
from chatapp.middleware.threads import on_database_thread
from chatapp.models import Response
from relay import (
    Grant,
    Refill,
    Reservation,
    Reserved,
    StoreUnavailable,
    day_end,
    day_start,
    quota_day,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chatapp.models import User
    from relay import ModelConfig

SLACK: Final = timedelta(seconds=60)
"""A reservation outlives the wall clock of its answer by this: the end is recorded after it."""


@dataclass(frozen=True, slots=True)
class Terms:
    """A plan's limits, or the settings' where there is no plan. 0 = no limit."""

    max_generations: int
    max_output_tokens_per_day: int
    models: frozenset[str] = frozenset()
    """Empty: all."""

    def allows(self, model: str) -> bool:
        return not self.models or model in self.models


@dataclass(frozen=True, slots=True)
class Charge:
    """What an ended response used, as its record says."""

    user_id: int
    response_id: str
    created_at: datetime
    output_tokens: int


def terms_of(user: User) -> Terms:
    """`user.plan` has come with its person: `People` and auth/identify.py read both at once."""
    plan = user.plan
    if plan is None:
        relay = runtime.config()
        return Terms(relay.max_generations_per_user, relay.max_output_tokens_per_day)
    return Terms(plan.max_generations, plan.max_output_tokens_per_day, plan.allowed)


async def reserve(
    user: User, response_id: str, model: ModelConfig | None, max_output_tokens: int | None
) -> Grant:
    """A place for one more answer, or why not. It also asks whether the store takes one.

    Raises StoreRefused, StoreUnavailable, or Django's DatabaseError where counters had to
    be made anew.
    """
    terms, store = terms_of(user), runtime.store()
    await store.know_time()
    now = runtime.now()
    if not terms.max_generations and not terms.max_output_tokens_per_day:
        await store.room()
        return Grant(Reserved.GRANTED)
    wanted = Reservation(
        response_id=response_id,
        day=quota_day(now),
        until_ms=_until_ms(now, model),
        hold=_hold(model, max_output_tokens),
        max_running=terms.max_generations,
        max_tokens=terms.max_output_tokens_per_day,
    )
    grant = await store.quotas.reserve(str(user.pk), wanted)
    if grant.outcome is Reserved.UNKNOWN:
        await store.quotas.refill(str(user.pk), await _recorded(user.pk, wanted.day, grant.run))
        grant = await store.quotas.reserve(str(user.pk), wanted)
    if grant.outcome is Reserved.UNKNOWN:
        raise StoreUnavailable("the counters were lost again at once")
    return grant


async def settle(charge: Charge) -> None:
    """Count it for the day on which it was asked for. Safe to repeat. Raises StoreUnavailable."""
    await runtime.store().quotas.settle(
        str(charge.user_id),
        charge.response_id,
        day=quota_day(charge.created_at),
        tokens=charge.output_tokens,
    )


async def release(user: User, response_ids: Sequence[str]) -> None:
    """Of what never ran. Safe to repeat. Raises StoreUnavailable."""
    await runtime.store().quotas.release(str(user.pk), response_ids)


def _until_ms(created_at: datetime, model: ModelConfig | None) -> int:
    total_s = (model.total_s if model else None) or runtime.config().total_s
    return round((created_at + SLACK).timestamp() * 1000 + total_s * 1000)


def _hold(model: ModelConfig | None, max_output_tokens: int | None) -> int:
    return max_output_tokens or (model.max_output_tokens if model else None) or 0


@on_database_thread
def _recorded(user_id: int, day: str, run: str) -> Refill:
    """What the rows say in this run of the store's server.

    One that ends between the two looks is in both, and counts as ended.
    """
    rows, models = Response.objects.filter(user_id=user_id), catalog.models()
    running = [
        (pk, _until_ms(created_at, models.get(name)), _hold(models.get(name), None))
        for pk, created_at, name in rows.begun().values_list("pk", "created_at", "model")
    ]
    today = rows.final().filter(created_at__gte=day_start(day), created_at__lt=day_end(day))
    ended = [(pk, tokens or 0) for pk, tokens in today.values_list("pk", "output_tokens")]
    return Refill(run=run, day=day, ended=ended, running=running)
