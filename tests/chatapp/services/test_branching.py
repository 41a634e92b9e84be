"""Other versions of what was said: beside it, told their own path, and refused while it answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from asgiref.sync import sync_to_async

from chatapp import services
from chatapp.models import AuditEvent, Chat, Message, Plan, Response, User
from chatapp.services import BadInput, ChatBusy, NotContinuable, StoreAway
from chatapp.services.settling import record
from relay import GenerationRequest, StopReason
from relay.errors import ErrorKind
from relay.generate import End
from tests.chatapp.conftest import scribe_of, talk

if TYPE_CHECKING:
    from chatapp.services import Sent
    from relay import MemoryStore

pytestmark = pytest.mark.usefixtures("store")


def asked(response: Response) -> GenerationRequest:
    return GenerationRequest.from_json(response.request)


def told(response: Response) -> list[str]:
    return [f"{m['role']}: {m['content']}" for m in asked(response).messages]


async def say(chat: Chat, text: str, **more: Any) -> Sent:
    user = await User.objects.aget(pk=chat.user_id)
    return await services.send_message(user=user, chat=chat, text=text, **more)


async def ended(store: MemoryStore, sent: Sent, *deltas: str, end: End | None = None) -> Message:
    """The answer, when its record is written."""
    scribe = await scribe_of(store, sent.response.pk)
    if deltas:
        await scribe.say(*deltas)
    await (scribe.end(end) if end else scribe.end())
    await record(sent.response.pk)
    return await Message.objects.select_related("chat", "response").aget(pk=sent.answer.pk)


async def fresh(message: Message) -> Message:
    return await Message.objects.select_related("chat", "response").aget(pk=message.pk)


async def above(message: Message) -> Message:
    assert message.parent_id is not None
    return await Message.objects.select_related("chat", "response").aget(pk=message.parent_id)


async def shown(chat: Chat) -> list[str]:
    await chat.arefresh_from_db()
    path = Message.objects.path_to(chat.current_id).order_by("position")
    return [message.text async for message in path]


async def test_an_edited_message_stands_beside_the_first_and_is_told_what_came_before(
    user: User, chat: Chat, store: MemoryStore
) -> None:
    _, _, second, _ = await sync_to_async(talk)(chat, "one", "eins", "two", "zwei")
    sent = await services.edit_message(message=await fresh(second), by=user, text="three")
    assert told(sent.response) == ["user: one", "assistant: eins", "user: three"]
    assert (sent.message.parent_id, sent.message.text) == (second.parent_id, "three")
    await ended(store, sent, "drei")
    assert await shown(chat) == ["one", "eins", "three", "drei"]
    assert (await fresh(second)).text == "two", "nothing is changed"
    await say(chat, "four")
    assert await shown(chat) == ["one", "eins", "three", "drei", "four", ""]


async def test_the_first_message_can_be_edited(user: User, chat: Chat) -> None:
    first, _ = await sync_to_async(talk)(chat, "one", "eins")
    sent = await services.edit_message(message=await fresh(first), by=user, text="uno")
    assert told(sent.response) == ["user: uno"]
    assert sent.message.parent_id is None
    assert await shown(chat) == ["uno", ""]


async def test_an_answer_is_asked_for_again_of_the_same_or_another_model(
    user: User, chat: Chat, store: MemoryStore
) -> None:
    first = await ended(store, await say(chat, "one", model="other"), "eins")
    again = await services.regenerate(message=first, by=user)
    assert (again.response.model, told(again.response)) == ("other", ["user: one"])
    assert again.answer.parent_id == first.parent_id == again.message.pk
    second = await ended(store, again, "uno")
    of_question = await fresh(again.message)
    third = await services.regenerate(message=of_question, by=user, model="other")
    await ended(store, third, "un")
    assert (await services.tree_of(chat=chat)).versions_of(third.answer.pk) == [
        first.pk,
        second.pk,
        third.answer.pk,
    ]


async def test_a_chosen_branch_is_shown_and_told_and_keeps_the_order_of_the_list(
    user: User, chat: Chat, store: MemoryStore
) -> None:
    one, eins, _, zwei = await sync_to_async(talk)(chat, "one", "eins", "two", "zwei")
    await ended(
        store, await services.edit_message(message=await fresh(one), by=user, text="x"), "y"
    )
    await chat.arefresh_from_db()
    before = chat.updated_at
    assert await services.choose(message=await fresh(eins)) == zwei.pk
    assert await shown(chat) == ["one", "eins", "two", "zwei"]
    assert chat.updated_at == before
    assert told((await say(chat, "three")).response)[-2:] == ["assistant: zwei", "user: three"]


async def test_the_same_wish_twice_is_one_version(
    user: User, chat: Chat, store: MemoryStore
) -> None:
    first = await ended(store, await say(chat, "one"), "eins")
    question = await above(first)
    one = await services.regenerate(message=first, by=user, idempotency_key="k")
    again = await services.regenerate(message=first, by=user, idempotency_key="k")
    assert (one.response.pk, one.answer.pk) == (again.response.pk, again.answer.pk)
    await ended(store, one, "uno")
    edited = await services.edit_message(message=question, by=user, text="x", idempotency_key="e")
    repeat = await services.edit_message(message=question, by=user, text="x", idempotency_key="e")
    assert (edited.message.pk, edited.answer.pk) == (repeat.message.pk, repeat.answer.pk)
    with pytest.raises(services.KeyReused):
        await services.edit_message(message=question, by=user, text="y", idempotency_key="e")
    assert await Response.objects.acount() == 3


@pytest.mark.parametrize("double_text", ["reject", "queue", "interrupt"])
async def test_while_the_chat_answers_every_branch_is_refused(
    user: User, chat: Chat, store: MemoryStore, double_text: str
) -> None:
    """A branch is begun at what a person sees: it neither waits nor stops anything."""
    chat.double_text = double_text
    await chat.asave()
    first = await ended(store, await say(chat, "one"), "ei", end=End.cancelled("user"))
    running = await say(chat, "two")
    question = await above(first)
    for wish in (
        services.edit_message(message=question, by=user, text="x"),
        services.regenerate(message=first, by=user),
        services.continue_answer(message=first, by=user),
        services.continue_answer(message=await fresh(running.answer), by=user),
    ):
        with pytest.raises(ChatBusy, match="still answering"):
            await wish
    assert await Response.objects.acount() == 2
    await running.response.arefresh_from_db()
    assert running.response.stop_requested_at is None


async def test_another_branch_may_be_looked_at_while_one_answers(
    user: User, chat: Chat, store: MemoryStore
) -> None:
    first = await ended(store, await say(chat, "one"), "eins")
    running = await services.regenerate(message=first, by=user)
    await services.choose(message=first)
    assert await shown(chat) == ["one", "eins"]
    await ended(store, running, "uno")
    assert await shown(chat) == ["one", "eins"], "an end does not change what is shown"


async def test_what_waits_hangs_below_the_path_it_was_written_on(
    user: User, chat: Chat, store: MemoryStore
) -> None:
    chat.double_text = Chat.DoubleText.QUEUE
    await chat.asave()
    first = await ended(store, await say(chat, "one"), "eins")
    running = await services.regenerate(message=first, by=user)
    waiting = await say(chat, "two")
    await services.choose(message=first)
    await ended(store, running, "uno")
    await waiting.response.arefresh_from_db()
    await services.Sweep()()
    await waiting.response.arefresh_from_db()
    assert told(waiting.response) == ["user: one", "assistant: uno", "user: two"]


async def test_an_answer_that_broke_off_is_gone_on_with(
    user: User, chat: Chat, store: MemoryStore
) -> None:
    half = await ended(store, await say(chat, "one"), "Half of ", end=End.cancelled("user"))
    rest = await services.continue_answer(message=half, by=user)
    assert told(rest.response) == ["user: one", "assistant: Half of "]
    assert asked(rest.response).continues
    assert (rest.answer.parent_id, rest.message.pk) == (half.pk, half.parent_id)
    more = await ended(store, rest, "an ans", end=End.cancelled("user"))
    last = await services.continue_answer(message=more, by=user)
    assert told(last.response) == ["user: one", "assistant: Half of an ans"]
    await ended(store, last, "wer.")
    following = await say(chat, "two")
    assert told(following.response) == [
        *("user: one", "assistant: Half of an answer.", "user: two"),
    ]
    assert not asked(following.response).continues
    exported = await services.as_markdown(chat=await Chat.objects.aget(pk=chat.pk))
    assert "\n\nHalf of an answer.\n\n" in exported
    assert exported.count("## fast") == 2, "the answer, and the one that is being written"


async def test_a_rest_that_failed_without_a_word_is_passed_over(
    user: User, chat: Chat, store: MemoryStore
) -> None:
    half = await ended(store, await say(chat, "one"), "Half of ", end=End.cancelled("user"))
    empty = await ended(
        store, await services.continue_answer(message=half, by=user), end=End.cancelled("user")
    )
    again = await services.continue_answer(message=empty, by=user)
    assert again.answer.parent_id == half.pk
    assert told(again.response) == ["user: one", "assistant: Half of "]


async def test_only_a_beginning_can_be_gone_on_with(
    user: User, chat: Chat, store: MemoryStore
) -> None:
    whole = await ended(store, await say(chat, "one"), "eins")
    with pytest.raises(NotContinuable, match="as long as it gets"):
        await services.continue_answer(message=whole, by=user)
    nothing = await ended(store, await say(chat, "two"), end=End.cancelled("user"))
    with pytest.raises(NotContinuable, match="Nothing had been written"):
        await services.continue_answer(message=nothing, by=user)
    lost = End.failed(ErrorKind.CONTEXT_LENGTH, "too long")
    failed = await ended(store, await say(chat, "three"), "drei", end=lost)
    with pytest.raises(NotContinuable):
        await services.continue_answer(message=failed, by=user)
    with pytest.raises(BadInput, match="Only an answer"):
        await services.continue_answer(message=await above(whole), by=user)
    with pytest.raises(BadInput, match="Only a message of a person"):
        await services.edit_message(message=whole, by=user, text="x")
    assert await Response.objects.acount() == 3


async def test_a_failure_that_may_pass_can_be_gone_on_with(
    user: User, chat: Chat, store: MemoryStore
) -> None:
    broken = End.failed(ErrorKind.TRUNCATED, "it broke off", retryable=True)
    half = await ended(store, await say(chat, "one"), "ei", end=broken)
    assert told((await services.continue_answer(message=half, by=user)).response)[-1].endswith("ei")


async def test_branches_are_reserved_audited_and_lost_with_redis_like_any_question(
    user: User, chat: Chat, store: MemoryStore
) -> None:
    first = await ended(store, await say(chat, "one"), "eins")
    store.faults.unreachable = True
    with pytest.raises(StoreAway):
        await services.regenerate(message=first, by=user)
    store.faults.unreachable = False
    assert await shown(chat) == ["one", "eins"]
    plan = await Plan.objects.acreate(name="small", max_generations=1)
    await User.objects.aupdate(plan=plan)
    someone = await User.objects.aget(pk=user.pk)
    other = await services.start_chat(user=someone)
    await say(other, "elsewhere")
    with pytest.raises(services.EnoughRunning):
        await services.regenerate(message=first, by=someone)
    assert await shown(chat) == ["one", "eins"]
    plan.max_generations = 2
    await plan.asave()
    someone = await User.objects.aget(pk=user.pk)
    sent = await services.regenerate(message=first, by=someone)
    entry = await AuditEvent.objects.aget(action="created", response_id=sent.response.pk)
    assert entry.detail["branch"] == "regenerate"
    assert "eins" not in str(entry.detail)


async def test_a_retry_beside_a_continuation_goes_on_with_the_same(
    user: User, chat: Chat, store: MemoryStore
) -> None:
    half = await ended(store, await say(chat, "one"), "Half ", end=End.cancelled("user"))
    rest = await services.continue_answer(message=half, by=user)
    await services.cancel(response=rest.response, by=user, reason=StopReason.USER)
    failed = await Response.objects.aget(pk=rest.response.pk)
    again = await services.retry(response=failed, by=user)
    assert asked(again).continues
    assert told(again) == ["user: one", "assistant: Half "]
    assert (await Message.objects.aget(response=again)).parent_id == half.pk


async def test_deleting_a_chat_removes_all_its_branches(
    user: User, chat: Chat, store: MemoryStore
) -> None:
    first = await ended(store, await say(chat, "one"), "eins")
    await services.regenerate(message=first, by=user)
    await services.choose(message=first)
    await chat.arefresh_from_db()
    await services.delete_chat(chat=chat, by=user)
    assert not await Message.objects.aexists()
    rows = [(row.status, row.fold, row.request) async for row in Response.objects.all()]
    assert sorted(rows) == [("cancelled", "", ""), ("completed", "", "")]
