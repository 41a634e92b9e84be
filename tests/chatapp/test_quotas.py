"""Plans and their limits: reserved before anything is written, settled once (PROTOCOL 11)."""

from __future__ import annotations

import asyncio
import dataclasses
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from asgiref.sync import sync_to_async
from django.db import OperationalError, connection, transaction
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from chatapp import quotas, services
from chatapp.auth import by_key, make_key
from chatapp.finalize import Records
from chatapp.middleware.threads import transact
from chatapp.models import Chat, Plan, Response, User
from chatapp.quotas import Charge, terms_of
from chatapp.services import ChatBusy, DayUsedUp, EnoughRunning, NotInPlan, Question, StoreAway
from relay import (
    RecordUnavailable,
    StopReason,
    StoreUnavailable,
    UsageCount,
    conclude,
    quota_day,
)
from tests.chatapp.conftest import is_problem, make_row, scribe_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from chatapp.services.writing import Draft
    from relay import MemoryStore
    from tests.chatapp.conftest import Api, Clock

BODY = {"model": "fast", "input": "hi"}


@pytest.fixture
def plan(user: User) -> Plan:
    """Ann's: one answer at a time, a hundred tokens a day."""
    plan = Plan.objects.create(name="small", max_generations=1, max_output_tokens_per_day=100)
    User.objects.filter(pk=user.pk).update(plan=plan)
    user.plan = plan
    return plan


async def end(store: MemoryStore, response_id: str, tokens: int = 0) -> None:
    scribe = await scribe_of(store, response_id)
    await scribe.end(usage=UsageCount(output_tokens=tokens, source="provider"))


async def answer(store: MemoryStore, response_id: str, tokens: int) -> None:
    await end(store, response_id, tokens)
    await Records().finalize(await conclude(store, response_id))


def question(**more: Any) -> Question:
    given: dict[str, Any] = {"model": "fast", "messages": [{"role": "user", "content": "hi"}]}
    return Question(**(given | more))


async def test_a_refusal_says_what_is_used_and_when_there_is_more(
    api: Api, plan: Plan, store: MemoryStore
) -> None:
    rid = await api.ask()
    problem = is_problem(reply := await api.post("/api/responses", BODY), 429)
    assert (problem["quota"], problem["used"], problem["limit"]) == ("generations", 1, 1)
    assert (problem["remaining"], problem["resets_at"]) == (0, None)
    assert reply.headers["Retry-After"] == "5"
    assert "You have 1 answers running; at most 1 may run" in problem["detail"]
    await answer(store, rid, 120)
    problem = is_problem(reply := await api.post("/api/responses", BODY), 429)
    assert (problem["quota"], problem["used"]) == ("output_tokens_per_day", 120)
    assert (problem["limit"], problem["remaining"]) == (100, 0)
    assert problem["detail"].startswith("You have used 120 of 100 output tokens today.")
    resets_at = datetime.fromisoformat(problem["resets_at"])
    assert (resets_at.hour, resets_at.minute) == (0, 0)
    left_s = (resets_at - datetime.now(UTC)).total_seconds()
    assert abs(int(reply.headers["Retry-After"]) - left_s) < 60
    assert await Response.objects.acount() == 1, "nothing was written"


async def test_tokens_that_running_answers_may_need_are_no_more_to_be_had(
    user: User, plan: Plan, store: MemoryStore
) -> None:
    plan.max_generations = 0
    await services.create_response(user=user, question=question(max_output_tokens=100))
    with pytest.raises(DayUsedUp, match="may need the rest") as refused:
        await services.create_response(user=user, question=question())
    assert refused.value.retry_after_s == 5


async def test_an_end_that_nobody_recorded_yet_takes_no_place(
    api: Api, plan: Plan, store: MemoryStore
) -> None:
    """Who sees `ended` and asks again must not be told that the answer still runs."""
    rid = await api.ask()
    await end(store, rid, 10)
    await api.ask()
    assert (await Response.objects.aget(pk=rid)).status == "completed"


async def test_a_stop_in_the_queue_gives_the_place_back(
    user: User, plan: Plan, store: MemoryStore
) -> None:
    for _ in range(3):
        response = await services.create_response(user=user, question=question())
        await services.cancel(response=response, by=user, reason=StopReason.USER)


@pytest.mark.parametrize("lost_at", ["the settling", "its reply"])
async def test_an_answer_is_charged_once_whatever_is_retried(
    user: User, plan: Plan, store: MemoryStore, lost_at: str
) -> None:
    response = await services.create_response(user=user, question=question())
    await end(store, response.pk, 30)
    outcome = await conclude(store, response.pk)
    store.faults.fail("settle", happened=lost_at == "its reply")
    with pytest.raises(StoreUnavailable):
        await Records().finalize(outcome)
    assert (await Response.objects.aget(pk=response.pk)).status == "completed"
    await Records().finalize(outcome)  # the job comes back
    await Records().finalize(outcome)
    assert (await Records().load(response.pk)).final  # and once more, to a worker that looks first
    assert await used(user, plan, store) == 30


async def test_a_worker_that_finds_a_final_record_settles_it(
    user: User, plan: Plan, store: MemoryStore
) -> None:
    response = await services.create_response(user=user, question=question())
    store.faults.fail("settle")
    with pytest.raises(StoreUnavailable):
        await answer(store, response.pk, 30)
    await Records().load(response.pk)
    assert await used(user, plan, store) == 30


@pytest.mark.parametrize("written", [True, False])
async def test_a_post_whose_commit_failed_keeps_its_place(
    user: User, plan: Plan, store: MemoryStore, monkeypatch: pytest.MonkeyPatch, written: bool
) -> None:
    """PROTOCOL 11.4: the row may be there, and its answer running."""

    async def committed(work: Callable[[], Any]) -> Any:
        if written:
            await transact(work)
        else:
            await sync_to_async(_rolled_back)(work)
        raise OperationalError("the connection was lost")

    with monkeypatch.context() as patch:
        patch.setattr("chatapp.services.writing.transact", committed)
        with pytest.raises(RecordUnavailable):
            await services.create_response(user=user, question=question(), idempotency_key="k")
    assert await Response.objects.acount() == written
    with pytest.raises(EnoughRunning):
        await services.create_response(user=user, question=question())
    again = await services.create_response(user=user, question=question(), idempotency_key="k")
    await answer(store, again.pk, 3)
    await services.create_response(user=user, question=question())


def _rolled_back(work: Callable[[], Any]) -> None:
    with transaction.atomic():
        work()
        transaction.set_rollback(True)


async def test_a_post_that_wrote_nothing_gives_its_place_back(
    user: User, plan: Plan, store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PROTOCOL 11.4: or an outage of a minute would lock people out for half an hour."""

    def away(draft: Draft) -> None:
        raise OperationalError("no connection")

    with monkeypatch.context() as patch:
        patch.setattr("chatapp.services.writing.write_or_find", away)
        with pytest.raises(RecordUnavailable):
            await services.create_response(user=user, question=question())
    await services.create_response(user=user, question=question())


async def used(user: User, plan: Plan, store: MemoryStore) -> int:
    """As the next refusal tells it."""
    await sync_to_async(make_row)(user)  # other rows change nothing
    plan.max_generations, plan.max_output_tokens_per_day = 0, 1  # no place is looked after
    with pytest.raises(DayUsedUp) as refused:
        await services.create_response(user=user, question=question())
    total: int = refused.value.extra["used"]
    return total


async def test_counters_that_were_lost_are_made_anew_from_the_rows(
    user: User, plan: Plan, store: MemoryStore, stranger: User
) -> None:
    """Redis was started empty: no free tokens, no second answer, and no double count later."""
    now = timezone.now()
    ended: dict[str, Any] = {"status": "completed", "ended_at": now}
    row = sync_to_async(make_row)
    counted = await row(user, output_tokens=40, **ended)
    await row(user, output_tokens=None, **ended)
    await row(user, output_tokens=1000, created_at=now - timedelta(days=2), **ended)
    await row(stranger, output_tokens=1000, **ended)
    running = await row(user)
    with pytest.raises(EnoughRunning) as refused:
        await services.create_response(user=user, question=question())
    assert refused.value.running == (running.pk,)
    await quotas.settle(Charge(user.pk, counted.pk, counted.created_at, 40))  # a late repeat
    await quotas.release(user, [running.pk])
    plan.max_output_tokens_per_day = 40
    with pytest.raises(DayUsedUp) as used_up:
        await services.create_response(user=user, question=question())
    assert used_up.value.extra["used"] == 40


async def test_a_refused_question_takes_no_place(
    user: User, plan: Plan, chat: Chat, store: MemoryStore
) -> None:
    plan.max_generations = 2
    await services.send_message(user=user, chat=chat, text="one", idempotency_key="k")
    with pytest.raises(ChatBusy):
        await services.send_message(user=user, chat=chat, text="two")
    await services.create_response(user=user, question=question())
    with pytest.raises(EnoughRunning):
        await services.create_response(user=user, question=question())


async def test_a_key_with_another_body_does_not_take_the_others_place_away(
    user: User, plan: Plan, store: MemoryStore
) -> None:
    first = await services.create_response(user=user, question=question(), idempotency_key="k")
    await quotas.release(user, [first.pk])  # so that the other one is the first to reserve
    with pytest.raises(services.KeyReused):
        await services.create_response(
            user=user, question=question(temperature=1), idempotency_key="k"
        )
    with pytest.raises(EnoughRunning) as refused:
        await services.create_response(user=user, question=question())
    assert refused.value.running == (first.pk,)


async def test_a_repeat_of_an_ended_answer_takes_no_place(
    user: User, plan: Plan, store: MemoryStore
) -> None:
    first = await services.create_response(user=user, question=question(), idempotency_key="k")
    await answer(store, first.pk, 1)
    store.lose_everything()
    again = await services.create_response(user=user, question=question(), idempotency_key="k")
    assert again.pk == first.pk
    await services.create_response(user=user, question=question())


async def test_a_key_that_is_free_again_holds_one_place_under_its_new_id(
    user: User, plan: Plan, store: MemoryStore
) -> None:
    first = await services.create_response(user=user, question=question(), idempotency_key="k")
    await answer(store, first.pk, 1)
    long_ago = timezone.now() - timedelta(hours=25)
    await Response.objects.filter(pk=first.pk).aupdate(created_at=long_ago)
    store.lose_everything()
    second = await services.create_response(user=user, question=question(), idempotency_key="k")
    with pytest.raises(EnoughRunning) as refused:
        await services.create_response(user=user, question=question())
    assert refused.value.running == (second.pk,)


async def test_parallel_repeats_reserve_once(user: User, plan: Plan, store: MemoryStore) -> None:
    plan.max_generations = 2
    rows = await asyncio.gather(
        *(
            services.create_response(user=user, question=question(), idempotency_key="k")
            for _ in range(8)
        )
    )
    assert len({row.pk for row in rows}) == 1
    await services.create_response(user=user, question=question())


async def test_a_reservation_lapses_after_the_answers_wall_clock(
    user: User, plan: Plan, store: MemoryStore, clock: Clock
) -> None:
    """Its holder crashed between the reservation and the commit."""
    store.faults.fail("release")
    chat = await services.start_chat(user=user)
    await sync_to_async(make_row)(user, chat=chat)
    with pytest.raises(services.ChatBusy):
        await services.send_message(user=user, chat=chat, text="hello")
    with pytest.raises(EnoughRunning):
        await services.create_response(user=user, question=question())
    clock.advance(1800 + 61)
    await services.create_response(user=user, question=question())


async def test_without_limits_nothing_is_reserved_and_the_day_is_known_all_the_same(
    user: User, store: MemoryStore, settings: Any
) -> None:
    """A limit that comes later counts from the rows of the whole day."""
    settings.RELAY = dataclasses.replace(settings.RELAY, max_generations_per_user=0)
    store.faults.fail("reserve")
    for _ in range(3):
        response = await services.create_response(user=user, question=question())
        await answer(store, response.pk, 7)
    user.plan = await Plan.objects.acreate(name="new", max_output_tokens_per_day=21)
    with pytest.raises(StoreAway):
        await services.create_response(user=user, question=question())
    with pytest.raises(DayUsedUp) as refused:
        await services.create_response(user=user, question=question())
    assert refused.value.extra["used"] == 21


async def test_a_plan_counts_from_the_next_request_on(
    api: Api, plan: Plan, store: MemoryStore
) -> None:
    await api.ask()
    is_problem(await api.post("/api/responses", BODY), 429)
    await Plan.objects.filter(pk=plan.pk).aupdate(max_generations=2)
    await api.ask()
    await User.objects.aupdate(plan=None)  # the settings' four
    await api.ask()


def test_a_plan_costs_no_query(user: User, plan: Plan) -> None:
    key = make_key(user)
    by_key(key)
    with CaptureQueriesContext(connection) as queries:
        who = by_key(key)
        assert who is not None
        assert terms_of(who.user).max_output_tokens_per_day == 100
    assert len(queries) == 1
    with CaptureQueriesContext(connection) as queries:
        assert terms_of(User.objects.get(pk=user.pk)).max_generations == 1
    assert len(queries) == 1


async def test_a_plan_names_the_models_that_it_includes(
    api: Api, user: User, plan: Plan, store: MemoryStore
) -> None:
    await Plan.objects.filter(pk=plan.pk).aupdate(model_names="other,\nthird")
    problem = is_problem(await api.post("/api/responses", BODY), 403)
    assert problem["detail"] == ("Your plan does not include the model 'fast'. It includes: other.")
    chat = (await api.post("/api/chats", {})).json()
    assert chat["model"] == "other", "the default of those it includes"
    plan.model_names = "other"
    with pytest.raises(NotInPlan):
        await services.create_response(user=user, question=question())


async def test_a_plans_prices_stand_for_the_models_own(
    user: User, plan: Plan, store: MemoryStore
) -> None:
    await Plan.objects.filter(pk=plan.pk).aupdate(output_price_per_mtok="2.5")
    response = await services.create_response(user=user, question=question())
    await answer(store, response.pk, 10)
    row = await Response.objects.aget(pk=response.pk)
    assert row.cost is not None
    assert float(row.cost) == pytest.approx(25e-6)


async def test_a_response_counts_for_the_day_on_which_it_was_asked_for(
    user: User, plan: Plan, store: MemoryStore
) -> None:
    yesterday = timezone.now() - timedelta(days=1)
    await quotas.settle(Charge(user.pk, "resp_0_" + "0" * 32, yesterday, 1000))
    assert quota_day(yesterday) != quota_day(timezone.now())
    await services.create_response(user=user, question=question())
