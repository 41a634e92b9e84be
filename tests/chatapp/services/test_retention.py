"""Text is dropped when its time is over; figures and the trail stay."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from asgiref.sync import sync_to_async
from django.utils import timezone

from chatapp import audit
from chatapp.finalize import Records
from chatapp.models import AuditEvent, Chat, Message, MessageHtml, Picture, Plan, Response, User
from chatapp.services import BadInput, regenerate, retention
from chatapp.services.repair import Sweep
from chatapp.services.retention import Retention, Term, terms
from chatapp.services.verifying import ContentCheck
from chatapp.services.writing import turns_of
from tests.chatapp.conftest import make_row, talk
from tests.chatapp.test_finalize import outcome

if TYPE_CHECKING:
    from relay import MemoryStore
    from tests.chatapp.pages import Browser

pytestmark = pytest.mark.usefixtures("store")
PICTURED = [{"id": 1, "width": 2, "height": 2, "bytes": 3}]


@pytest.fixture
def plan(user: User) -> Plan:
    """Ann's: text is kept for 30 days."""
    made = Plan.objects.create(name="brief", text_retention_days=30)
    user.plan = made
    user.save()
    return made


@sync_to_async
def exchange(chat: Chat, days_ago: float, asked: str = "why?") -> tuple[Message, Message]:
    """A question and its answer, behind what was said before."""
    then = timezone.now() - timedelta(days=days_ago)
    last = Message.objects.filter(chat=chat).order_by("position").last()
    position = last.position if last else 0
    row = make_row(chat.user, asked=asked, chat=chat, created_at=then)
    audit.created(row, actor="ann", detail={})
    question = Message.objects.create(
        chat=chat, role="user", text=asked, position=position + 1, parent=last, pictured=PICTURED
    )
    answer = Message.objects.create(
        chat=chat, role="assistant", position=position + 2, parent=question, response=row
    )
    MessageHtml.objects.create(message=answer, version="1", html="<p>tea</p>")
    Picture.objects.create(chat=chat, media_type="image/png", width=2, height=2, data=b"png")
    chat.current = answer
    chat.save()
    return question, answer


async def answered(chat: Chat, days_ago: float, asked: str = "why?") -> tuple[Message, Message]:
    question, answer = await exchange(chat, days_ago, asked)
    assert answer.response_id is not None
    await Records().finalize(outcome(answer.response_id))
    then = timezone.now() - timedelta(days=days_ago)
    await Response.objects.filter(pk=answer.response_id).aupdate(ended_at=then)
    await Message.objects.filter(pk__in=(question.pk, answer.pk)).aupdate(created_at=then)
    await Picture.objects.filter(chat=chat, created_at__gt=then).aupdate(created_at=then)
    await Chat.objects.filter(pk=chat.pk).aupdate(updated_at=then)
    return question, answer


async def test_what_is_old_goes_and_what_is_young_stays(chat: Chat, plan: Plan) -> None:
    old = await answered(chat, 31, "old")
    young = await answered(chat, 29, "young")
    await Picture.objects.filter(chat=chat).aupdate(created_at=timezone.now())
    await Picture.objects.acreate(chat=chat, media_type="image/png", width=1, height=1, data=b"o")
    oldest = await Picture.objects.order_by("pk").alast()
    assert oldest is not None
    await Picture.objects.filter(pk=oldest.pk).aupdate(
        created_at=timezone.now() - timedelta(days=31)
    )
    await Retention()()
    texts = [m.text async for m in Message.objects.filter(chat=chat).order_by("position")]
    assert texts == ["", "", "young", "tea"]
    gone, kept = [await Response.objects.aget(pk=pair[1].response_id) for pair in (old, young)]
    assert (gone.fold, gone.request, gone.status, gone.output_tokens) == ("", "", "completed", 3)
    assert gone.erased_at is not None
    assert kept.fold
    assert not await MessageHtml.objects.filter(message=old[1]).aexists()
    assert await MessageHtml.objects.filter(message=young[1]).aexists()
    assert await Picture.objects.acount() == 2
    entry = await AuditEvent.objects.aget(action="erased")
    assert (entry.response_id, entry.actor, entry.detail) == (gone.pk, "", {"why": "retention"})
    check = ContentCheck()
    assert await sync_to_async(lambda: list(check.findings()))() == []
    assert (check.erased, check.matched) == (1, 1)


async def test_a_chat_in_which_all_is_old_goes_as_a_whole(chat: Chat, plan: Plan) -> None:
    await answered(chat, 31)
    await Sweep()()
    assert not await Chat.objects.aexists()
    assert not await Message.objects.aexists()
    assert not await Picture.objects.aexists()
    row = await Response.objects.aget()
    assert (row.fold, row.request, row.output_tokens) == ("", "", 3)


async def test_what_is_running_is_left_alone(chat: Chat, plan: Plan) -> None:
    await exchange(chat, 31)
    await Chat.objects.aupdate(updated_at=timezone.now() - timedelta(days=31))
    await Retention()()
    assert (await Response.objects.aget()).request
    assert await Message.objects.filter(text="why?").aexists()


async def test_without_a_plan_the_setting_counts(chat: Chat, settings: Any) -> None:
    await answered(chat, 8)
    assert await terms() == []
    await Retention()()
    assert await Chat.objects.aexists()
    settings.TEXT_RETENTION_DAYS = 7
    assert await terms() == [Term(7, None)]
    await Retention()()
    assert not await Chat.objects.aexists()


async def test_a_plan_that_keeps_text_is_stronger_than_the_setting(
    chat: Chat, plan: Plan, settings: Any
) -> None:
    settings.TEXT_RETENTION_DAYS = 7
    plan.text_retention_days = None
    await plan.asave()
    await answered(chat, 8)
    await Retention()()
    assert await Chat.objects.aexists()


async def test_much_goes_in_batches_and_then_nothing_is_looked_for(
    user: User, plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "ANSWERS", 2)
    then = timezone.now() - timedelta(days=40)
    make = sync_to_async(make_row)
    for _ in range(5):
        await make(user, status="completed", ended_at=then, fold="{}")
    retain = Retention()
    left = []
    for _ in range(4):
        await retain()
        left.append(await Response.objects.exclude(fold="").acount())
    assert left == [3, 1, 0, 0]
    await make(user, status="completed", ended_at=then, fold="{}")
    await retain()
    assert await Response.objects.exclude(fold="").acount() == 1  # it looks again later


async def test_a_model_is_not_shown_what_is_gone(chat: Chat, plan: Plan) -> None:
    old = await answered(chat, 31)
    young = await answered(chat, 1, "young")
    await Message.objects.filter(pk=young[0].pk).aupdate(pictured=[])
    await Retention()()
    said = Message.objects.path_to(young[1].pk).said()
    turns = await sync_to_async(turns_of)(said)
    assert [(turn.role, turn.text) for turn in turns] == [("user", "young"), ("assistant", "tea")]
    with pytest.raises(BadInput, match="not kept any more"):
        await regenerate(message=await Message.objects.select_related("chat").aget(pk=old[1].pk),
                         by=chat.user)  # fmt: skip


async def test_a_conversation_begins_with_a_person(chat: Chat) -> None:
    await sync_to_async(talk)(chat, "", "tea", "and then?")
    said = Message.objects.filter(chat=chat).said()
    turns = await sync_to_async(turns_of)(said)
    assert [turn.text for turn in turns] == ["and then?"]


async def test_the_page_says_that_it_is_gone(
    chat: Chat, plan: Plan, ann: Browser, store: MemoryStore
) -> None:
    await answered(chat, 31)
    await answered(chat, 1, "young")
    await Retention()()
    shown = (await ann.get(f"/chats/{chat.pk}/")).text
    assert shown.count("The text of this message is not kept any more.") == 1
    assert shown.count("The text of this answer is not kept any more.") == 1
