"""What hours came to: kept once, the same as added up by hand, percentiles within an eighth."""

from __future__ import annotations

import math
from collections import Counter
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chatapp.models import Figure, FigureHead
from chatapp.services import figures
from chatapp.services.buckets import BOUNDS, percentile
from chatapp.services.overview import overview
from tests.chatapp.conftest import make_row

if TYPE_CHECKING:
    from chatapp.models import User

NOON = datetime(2026, 11, 20, 12, 30, tzinfo=UTC)


def bucket_of(value: float) -> int:
    return next((n for n, bound in enumerate(BOUNDS) if value <= bound), len(BOUNDS))


TIMES = st.lists(st.floats(1.1, 600_000), min_size=1, max_size=200)


@given(TIMES, st.sampled_from([0.5, 0.95, 0.99]))
def test_a_percentile_of_buckets_is_in_the_bucket_of_the_true_one(
    values: list[float], share: float
) -> None:
    found = percentile(Counter(map(bucket_of, values)), share)
    assert found is not None
    ordered = sorted(values)
    true = ordered[math.ceil(share * len(ordered)) - 1]
    assert true / 1.2501 <= found <= true * 1.2501


def test_of_nothing_there_is_no_percentile() -> None:
    assert percentile({}, 0.5) is None


def end(user: User, ago: timedelta, **columns: Any) -> None:
    ended_at = NOON - ago
    given: dict[str, Any] = {
        "status": "completed",
        "answered_by": "fast",
        "created_at": ended_at - timedelta(seconds=9),
        "ended_at": ended_at,
        "first_token_ms": 400,
        "writing_ms": 1000,
        "input_tokens": 5,
        "output_tokens": 101,
        "zombie_tokens": 0,
        "cost": Decimal("0.5"),
    }
    make_row(user, **(given | columns))


@pytest.fixture
def ended(user: User, stranger: User) -> None:
    minute = timedelta(minutes=1)
    end(user, 5 * minute)
    end(user, 10 * minute, first_token_ms=40_000, zombie_tokens=10)
    end(stranger, 90 * minute, status="failed", reason="stalled", first_token_ms=None, cost=None)
    end(
        stranger, 26 * 60 * minute, answered_by="", model="other", status="cancelled", reason="user"
    )
    make_row(user)  # is running


def caught_up() -> None:
    figures.bring_up_to_date(NOON)


@pytest.mark.usefixtures("ended")
@pytest.mark.parametrize(
    ("name", "answers", "failed"), [("hour", 2, 0), ("day", 3, 1), ("week", 4, 1), ("month", 4, 1)]
)
def test_a_range_is_added_up_from_what_was_kept(name: str, answers: int, failed: int) -> None:
    for _ in range(2):  # to do it twice changes nothing
        caught_up()
    seen = overview(name, NOON)
    assert seen.whole.answers == answers
    assert seen.whole.ends["failed"] == failed
    assert len(seen.labels) == len(seen.steps) == seen.range.steps
    assert sum(part.answers for part in seen.steps) == answers
    assert seen.whole.zombie_tokens == 10
    assert seen.steps[-2 if name == "hour" else -1].answers >= 1
    between = seen.whole.between_ms(0.5)
    assert between == pytest.approx(10, rel=0.25)  # 1000 ms for the hundred after the first
    first = seen.whole.first_ms(0.99)
    assert first == pytest.approx(40_000, rel=0.25)


@pytest.mark.usefixtures("ended")
def test_models_people_and_errors_are_told_apart() -> None:
    caught_up()
    seen = overview("month", NOON)
    assert {name: part.answers for name, part in seen.models.items()} == {"fast": 3, "other": 1}
    assert seen.models["fast"].reasons == {"stalled": 1}
    people = [(one.name, one.answers, one.output_tokens) for one in seen.people]
    assert people == [("ann", 2, 202), ("bob", 2, 202)]
    assert seen.people[0].cost == Decimal(1)
    only = overview("month", NOON, "other")
    assert (only.whole.answers, [one.name for one in only.people]) == (1, ["bob"])


@pytest.mark.usefixtures("ended")
def test_an_hour_that_is_settled_is_never_added_up_again(user: User) -> None:
    caught_up()
    done = FigureHead.objects.get().done_until
    assert done == NOON.replace(minute=0)
    end(user, timedelta(minutes=90))
    end(user, timedelta(minutes=2))
    caught_up()
    assert overview("day", NOON).whole.answers == 4


def test_one_process_at_a_time_brings_them_up_to_date(transactional_db: None) -> None:
    assert figures.take(NOON)
    assert not figures.take(NOON + figures.EVERY / 2)
    assert figures.take(NOON + figures.EVERY * 1.1)


def test_without_answers_there_is_nothing(transactional_db: None) -> None:
    caught_up()
    assert not Figure.objects.exists()
    assert overview("month", NOON).whole.answers == 0
