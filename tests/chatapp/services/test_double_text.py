"""A message that comes while its chat is answering: refused, queued, or it interrupts."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from chatapp import runtime, services
from chatapp.finalize import Records
from chatapp.middleware.threads import transact
from chatapp.models import Chat, Message, Plan, Response, User
from chatapp.services import QueueFull, StoreAway, Sweep, records
from chatapp.services.settling import start_next
from chatapp.services.writing import MAX_WAITING, Draft, Written, begin, write
from relay import GenerationRequest, StopReason, conclude
from tests.chatapp.conftest import is_problem, scribe_of

if TYPE_CHECKING:
    from relay import MemoryStore
    from tests.chatapp.conftest import Api

pytestmark = pytest.mark.usefixtures("store")


@pytest.fixture
def queueing(chat: Chat) -> Chat:
    chat.double_text = Chat.DoubleText.QUEUE
    chat.save()
    return chat


@pytest.fixture
def interrupting(chat: Chat) -> Chat:
    chat.double_text = Chat.DoubleText.INTERRUPT
    chat.save()
    return chat


async def say(chat: Chat, text: str, **more: Any) -> Response:
    user = await User.objects.aget(pk=chat.user_id)
    return (await services.send_message(user=user, chat=chat, text=text, **more)).response


async def end(store: MemoryStore, response: Response, text: str) -> None:
    scribe = await scribe_of(store, response.pk)
    await scribe.say(text)
    await scribe.end()


async def answer(store: MemoryStore, response: Response, text: str) -> None:
    await end(store, response, text)
    await records().finalize(await conclude(store, response.pk))


async def states(chat: Chat) -> list[str]:
    """Of the chat's answers, in order; `waits` for one that waits for another."""
    rows = Response.objects.filter(chat=chat).order_by("message__position")
    return [
        "waits" if row.waits and not row.is_final else row.reason or row.status
        async for row in rows
    ]


async def told(response: Response) -> list[str]:
    await response.arefresh_from_db()
    messages = GenerationRequest.from_json(response.request).messages
    return [f"{message['role']}: {message['content']}" for message in messages]


async def test_a_queued_message_begins_at_the_end_with_the_whole_conversation(
    queueing: Chat, store: MemoryStore
) -> None:
    first, second, third = [await say(queueing, text) for text in ("one", "two", "three")]
    assert await states(queueing) == ["queued", "waits", "waits"]
    assert await store.tails([second.pk]) == [None], "nobody can run it yet"
    await answer(store, first, "eins")
    assert await states(queueing) == ["completed", "queued", "waits"]
    assert await told(second) == ["user: one", "assistant: eins", "user: two"]
    await answer(store, second, "zwei")
    assert await told(third) == [
        *("user: one", "assistant: eins", "user: two", "assistant: zwei"),
        "user: three",
    ]
    await answer(store, third, "drei")
    assert await states(queueing) == ["completed"] * 3


async def test_a_queue_has_an_end(queueing: Chat) -> None:
    for n in range(1 + MAX_WAITING):
        await say(queueing, f"message {n}")
    with pytest.raises(QueueFull, match="wait in this chat already"):
        await say(queueing, "one too many")
    assert await Message.objects.acount() == 2 * (1 + MAX_WAITING)


async def test_a_stop_removes_what_waits_and_nothing_else(
    queueing: Chat, user: User, store: MemoryStore
) -> None:
    first, second, third = [await say(queueing, text) for text in ("one", "two", "three")]
    stopping = await services.cancel(response=second, by=user, reason=StopReason.USER)
    assert (stopping.snapshot.status, stopping.cancelling) == ("cancelled", False)
    assert await states(queueing) == ["queued", "user", "waits"]
    await answer(store, first, "eins")
    assert await states(queueing) == ["completed", "user", "queued"]
    assert await told(third) == [
        *("user: one", "assistant: eins", "user: two", "user: three"),
    ]
    again = await services.cancel(response=second, by=user, reason=StopReason.USER)
    assert again.snapshot.status == "cancelled"


async def test_a_stop_of_the_running_one_lets_the_next_begin(
    queueing: Chat, user: User, store: MemoryStore
) -> None:
    first, _ = await say(queueing, "one"), await say(queueing, "two")
    await services.cancel(response=first, by=user, reason=StopReason.USER)
    assert await states(queueing) == ["user", "queued"]


async def test_what_waits_survives_whoever_was_to_begin_it(
    queueing: Chat, store: MemoryStore
) -> None:
    """The process that recorded the end died at once: another one's sweep goes on."""
    first, second = await say(queueing, "one"), await say(queueing, "two")
    await end(store, first, "eins")
    await Records().finalize(await conclude(store, first.pk))
    assert await states(queueing) == ["completed", "waits"]
    await Sweep()()
    assert await states(queueing) == ["completed", "queued"]
    assert await store.tails([second.pk]) != [None]


async def test_the_sweep_leaves_what_waits_alone(queueing: Chat, store: MemoryStore) -> None:
    _, second = await say(queueing, "one"), await say(queueing, "two")
    for _ in range(3):
        await Sweep()()
    assert await states(queueing) == ["queued", "waits"]
    assert await store.tails([second.pk]) == [None]


async def test_a_stop_that_was_only_noted_is_carried_out_by_the_sweep(
    queueing: Chat, user: User, store: MemoryStore
) -> None:
    from chatapp.services.stopping import wish

    first, second = await say(queueing, "one"), await say(queueing, "two")
    await wish(second.pk, by="ann", reason=StopReason.USER)
    await answer(store, first, "eins")
    assert await states(queueing) == ["completed", "waits"], "it is not begun any more"
    await Sweep()()
    assert await states(queueing) == ["completed", "user"]


@pytest.mark.parametrize("turns", range(12))
async def test_an_end_and_an_arrival_at_the_same_moment(
    queueing: Chat, store: MemoryStore, turns: int
) -> None:
    """However they interleave, the message is answered and nothing runs twice."""
    first = await say(queueing, "one")
    await end(store, first, "eins")
    outcome = await conclude(store, first.pk)

    async def arrive() -> Response:
        for _ in range(turns % 6):
            await asyncio.sleep(0)
        return await say(queueing, "two")

    async def finish() -> None:
        for _ in range(turns // 2):
            await asyncio.sleep(0)
        await records().finalize(outcome)

    second, _, _ = await asyncio.gather(arrive(), finish(), start_next(queueing.pk))
    assert await states(queueing) == ["completed", "queued"]
    assert await told(second) == ["user: one", "assistant: eins", "user: two"]
    jobs = await store.take(0, "w", 10, 0)
    assert [job.response_id for job in jobs] == [second.pk]


async def test_an_end_that_saw_nobody_wait_is_noticed_by_who_arrives(
    queueing: Chat, store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on PostgreSQL, where the end may be written between the arrival's look and its commit."""
    first = await say(queueing, "one")
    await end(store, first, "eins")
    outcome = await conclude(store, first.pk)

    async def end_meanwhile(draft: Draft) -> Written:
        written = await write(draft)
        await Records().finalize(outcome)
        return written

    monkeypatch.setattr("chatapp.services.asking.write", end_meanwhile)
    await say(queueing, "two")
    assert await states(queueing) == ["completed", "queued"]


async def test_nothing_begins_beside_an_answer_that_runs(queueing: Chat) -> None:
    _, second = await say(queueing, "one"), await say(queueing, "two")
    assert await transact(partial(begin, second.pk, runtime.now())) is None
    assert await states(queueing) == ["queued", "waits"]


async def test_many_that_begin_the_same_one_begin_it_once(
    queueing: Chat, store: MemoryStore
) -> None:
    first, _, _ = [await say(queueing, text) for text in ("one", "two", "three")]
    await end(store, first, "eins")
    await Records().finalize(await conclude(store, first.pk))
    await asyncio.gather(*(start_next(queueing.pk) for _ in range(6)), Sweep()(), Sweep()())
    assert await states(queueing) == ["completed", "queued", "waits"]
    assert len(await store.take(0, "w", 10, 0)) == 1


async def test_a_message_waits_although_its_persons_limit_is_reached_by_what_it_waits_for(
    queueing: Chat, user: User, store: MemoryStore
) -> None:
    plan = await Plan.objects.acreate(name="small", max_generations=1)
    await User.objects.aupdate(plan=plan)
    first = await say(queueing, "one")
    await say(queueing, "two")
    other = await services.start_chat(user=user)
    with pytest.raises(services.EnoughRunning):
        await say(other, "three")
    await answer(store, first, "eins")
    assert await states(queueing) == ["completed", "queued"]


async def test_what_waits_takes_no_place_of_its_person(
    queueing: Chat, user: User, store: MemoryStore
) -> None:
    plan = await Plan.objects.acreate(name="small", max_generations=2)
    await User.objects.aupdate(plan=plan)
    first, _, _ = [await say(queueing, text) for text in ("one", "two", "three")]
    other = await services.start_chat(user=user)
    elsewhere = await say(other, "elsewhere")
    plan.max_generations = 1
    await plan.asave()
    await answer(store, first, "eins")
    assert await states(queueing) == ["completed", "waits", "waits"], "no place is left"
    await services.cancel(response=elsewhere, by=user, reason=StopReason.USER)
    assert await states(queueing) == ["completed", "queued", "waits"], "it waited for the place"


async def test_a_place_goes_to_whoever_waits_longest_and_to_no_more_than_fit(
    queueing: Chat, user: User, store: MemoryStore
) -> None:
    plan = await Plan.objects.acreate(name="three", max_generations=3)
    await User.objects.aupdate(plan=plan)
    later = await services.start_chat(user=user)
    await Chat.objects.filter(pk=later.pk).aupdate(double_text=Chat.DoubleText.QUEUE)
    await later.arefresh_from_db()
    running = [await say(chat, "runs") for chat in (queueing, later)]
    for chat in (queueing, later):
        await say(chat, "waits")
    elsewhere = await say(await services.start_chat(user=user), "elsewhere")
    plan.max_generations = 1
    await plan.asave()
    for response in running:
        await services.cancel(response=response, by=user, reason=StopReason.USER)
    waiting = ["user", "waits"]
    assert [await states(queueing), await states(later)] == [waiting, waiting]
    await services.cancel(response=elsewhere, by=user, reason=StopReason.USER)
    assert [await states(queueing), await states(later)] == [["user", "queued"], waiting]


async def test_an_interrupting_message_stops_what_is_written(
    interrupting: Chat, user: User, store: MemoryStore
) -> None:
    first = await say(interrupting, "one")
    second = await say(interrupting, "two")
    assert await states(interrupting) == ["superseded", "queued"]
    await first.arefresh_from_db()
    assert (first.status, first.stop_by) == ("cancelled", "ann")
    assert await told(second) == ["user: one", "user: two"]


async def test_an_interrupting_message_waits_for_the_honest_end(
    interrupting: Chat, store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worker closes its upstream before anything says `cancelled`; then the new one begins."""
    monkeypatch.setattr("chatapp.services.stopping.HONEST_END_S", 0.05)
    first = await say(interrupting, "one")
    scribe = await scribe_of(store, first.pk)
    await scribe.say("ein")
    second = await say(interrupting, "two")
    assert await states(interrupting) == ["queued", "waits"]
    await scribe.end()
    await records().finalize(await conclude(store, first.pk))
    assert await states(interrupting) == ["completed", "queued"]
    assert await told(second) == ["user: one", "assistant: ein", "user: two"]


async def test_a_repeat_of_an_interrupting_message_interrupts_nothing(
    interrupting: Chat, store: MemoryStore
) -> None:
    rows = await asyncio.gather(
        *(say(interrupting, "one", idempotency_key="k") for _ in range(4)),
    )
    again = await say(interrupting, "one", idempotency_key="k")
    assert {row.pk for row in rows} == {again.pk}
    assert await states(interrupting) == ["queued"]


async def test_nothing_is_stopped_for_a_message_that_cannot_be_taken(
    interrupting: Chat, store: MemoryStore
) -> None:
    await say(interrupting, "one")
    store.faults.unreachable = True
    with pytest.raises(StoreAway):
        await say(interrupting, "two")
    store.faults.unreachable = False
    assert await states(interrupting) == ["queued"]


async def test_deleting_a_chat_removes_what_waits(
    queueing: Chat, user: User, store: MemoryStore
) -> None:
    for text in ("one", "two", "three"):
        await say(queueing, text)
    await services.delete_chat(chat=queueing, by=user)
    assert [row.status async for row in Response.objects.all()] == ["cancelled"] * 3


async def test_the_api_sets_what_a_second_message_does(api: Api, chat: Chat) -> None:
    path = f"/api/chats/{chat.pk}"
    assert (await api.get(path)).json()["double_text"] == "reject"
    await api.post(f"{path}/messages", {"text": "one"})
    is_problem(await api.post(f"{path}/messages", {"text": "two"}), 409)
    changed = await api.patch(path, {"double_text": "queue"})
    assert changed.json()["double_text"] == "queue"
    reply = await api.post(f"{path}/messages", {"text": "two"})
    assert (reply.status_code, reply.json()["status"]) == (202, "queued")
    snapshot = (await api.get(f"/api/responses/{reply.json()['id']}")).json()
    assert snapshot["status"] == "queued"
    assert (await api.post(f"{reply.json()['cancel_url']}")).json()["status"] == "cancelled"
    is_problem(await api.patch(path, {"double_text": "nonsense"}), 422)
    made = (await api.post("/api/chats", {"double_text": "interrupt"})).json()
    assert made["double_text"] == "interrupt"
