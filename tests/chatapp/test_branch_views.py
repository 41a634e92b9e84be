"""Versions on the page, as a person without scripts meets them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from chatapp.models import Chat, Message, Response
from chatapp.templatetags import words
from relay.generate import End
from tests.chatapp.pages import asked, finished, writing

if TYPE_CHECKING:
    from relay import MemoryStore
    from tests.chatapp.pages import Browser, Page


def versions(page: Page) -> list[str]:
    return re.findall(r'aria-label="(Version \d+ of \d+)"', page.html)


async def answer_to(chat: Chat) -> Message:
    """The last one."""
    return await Message.objects.filter(chat=chat, role="assistant").alatest("position")


async def test_an_edited_question_is_a_version_and_the_first_can_be_brought_back(
    ann: Browser, chat: Chat, store: MemoryStore
) -> None:
    await finished(store, await asked(ann, chat, "first words"), End.finished(None), "One.")
    question = await Message.objects.aget(chat=chat, role="user")
    page = await ann.post(f"/messages/{question.pk}/edit", text="other words")
    assert page.status == 200
    assert "other words" in page.text
    assert "One." not in page.text
    assert versions(page) == ["Version 2 of 2"]
    page = await ann.post(f"/messages/{question.pk}/choose")
    assert "One." in page.text
    assert versions(page) == ["Version 1 of 2"]
    edited = await Message.objects.aget(text="other words")
    assert f'action="/messages/{edited.pk}/choose"' in page.html, "the way back"


async def test_the_way_leads_back_to_the_message(
    ann: Browser, chat: Chat, store: MemoryStore
) -> None:
    await finished(store, await asked(ann, chat), End.finished(None), "One.")
    answer = await answer_to(chat)
    await ann.get("/")
    reply = await ann.client.post(f"/messages/{answer.pk}/regenerate", {"key": "k"})
    again = await answer_to(chat)
    assert again.pk != answer.pk
    assert reply.headers["Location"] == f"/chats/{chat.pk}/#turn-{again.pk}"
    reply = await ann.client.post(f"/messages/{answer.pk}/regenerate", {"key": "k"})
    assert reply.headers["Location"].endswith(f"#turn-{again.pk}"), "sent twice is once"
    assert await Response.objects.acount() == 2
    reply = await ann.client.get(f"/messages/{answer.pk}/regenerate")
    assert reply.headers["Location"] == f"/chats/{chat.pk}/#turn-{answer.pk}"


async def test_a_refused_edit_is_given_back_in_its_form_and_not_in_the_box(
    ann: Browser, chat: Chat, store: MemoryStore
) -> None:
    await finished(store, await asked(ann, chat), End.finished(None), "One.")
    question = await Message.objects.aget(chat=chat, role="user")
    store.faults.fail("reserve")
    page = await ann.post(f"/messages/{question.pk}/edit", text="<my> new words")
    assert page.status == 503
    assert words.trouble("edit", 503) in page.text
    assert '<details class="edit asks" open>' in page.html
    assert "&lt;my&gt; new words</textarea>" in page.html
    assert page.box == ""
    assert await Message.objects.acount() == 2


async def test_every_branch_is_refused_with_a_sentence_while_the_chat_answers(
    ann: Browser, chat: Chat, store: MemoryStore
) -> None:
    await finished(store, await asked(ann, chat), End.cancelled("user"), "Half")
    half = await answer_to(chat)
    await ann.post(f"/chats/{chat.pk}/send", text="and now?")
    for verb in ("edit", "regenerate", "continue"):
        pk = half.parent_id if verb == "edit" else half.pk
        page = await ann.post(f"/messages/{pk}/{verb}", text="x")
        assert page.status == 409
        assert words.table()[verb]["kept"] in page.text
        assert "still answering" in page.text
    assert await Response.objects.acount() == 2


async def test_a_continued_answer_is_one_answer_with_no_seam(
    ann: Browser, chat: Chat, store: MemoryStore
) -> None:
    first = await asked(ann, chat)
    await finished(store, first, End.cancelled("user"), "The moon pulls on the wat")
    half = await answer_to(chat)
    page = await ann.get(f"/chats/{chat.pk}/")
    assert 'data-part="continue" hidden' in page.html, "in the template"
    assert page.html.count('data-part="continue"') == 2
    assert page.html.count('data-part="continue" hidden') == 1
    page = await ann.post(f"/messages/{half.pk}/continue")
    rest = await answer_to(chat)
    assert rest.response_id is not None
    response = await Response.objects.aget(pk=rest.response_id)
    scribe = await writing(store, response, "er, and ")
    page = await ann.get(f"/chats/{chat.pk}/")
    assert "The moon pulls on the water, and" in page.text
    assert page.html.count('<li class="turn answer"') == 2, "the answer and the template"
    assert page.json(f"before-{response.pk}")["text"] == "The moon pulls on the wat"
    assert page.json(f"snapshot-{response.pk}")["text"] == "er, and "
    await scribe.end(End.cancelled("user"))
    page = await ann.get(f"/chats/{chat.pk}/")
    assert words.table()["kept"] in page.text
    assert versions(page) == []
    assert f'action="/messages/{rest.pk}/continue"' in page.html
    assert "before-" not in page.html


async def test_a_rest_without_a_word_keeps_the_words_and_can_be_tried_again(
    ann: Browser, chat: Chat, store: MemoryStore
) -> None:
    await finished(store, await asked(ann, chat), End.cancelled("user"), "Half an answer")
    await ann.post(f"/messages/{(await answer_to(chat)).pk}/continue")
    rest = await answer_to(chat)
    page = await ann.post(f"/responses/{rest.response_id}/stop")
    assert "Half an answer" in page.text
    assert words.table()["nothing"] not in page.text
    page = await ann.post(f"/responses/{rest.response_id}/retry")
    assert "Half an answer" in page.text
    assert versions(page) == ["Version 2 of 2"]


async def test_an_answer_on_another_branch_is_told_can_be_reached_and_stopped(
    ann: Browser, chat: Chat, store: MemoryStore
) -> None:
    await finished(store, await asked(ann, chat), End.finished(None), "One.")
    first = await answer_to(chat)
    page = await ann.post(f"/messages/{first.pk}/regenerate", model="other")
    elsewhere = words.table()["branches"]["elsewhere"]
    assert elsewhere not in page.text
    running = await answer_to(chat)
    page = await ann.post(f"/messages/{first.pk}/choose")
    assert elsewhere in page.text
    assert "One." in page.text
    assert f'action="/messages/{running.pk}/choose"' in page.html
    page = await ann.post(f"/messages/{running.pk}/choose")
    assert elsewhere not in page.text
    assert f'data-answer="{running.response_id}"' in page.html
    await ann.post(f"/messages/{first.pk}/choose")
    await ann.post(f"/responses/{running.response_id}/stop")
    assert elsewhere not in (await ann.get(f"/chats/{chat.pk}/")).text
    row = await Response.objects.aget(pk=running.response_id or "")
    assert (row.model, row.status) == ("other", "cancelled")


async def test_words_on_a_hidden_branch_are_found_and_lead_to_their_place(
    ann: Browser, chat: Chat, store: MemoryStore
) -> None:
    await finished(store, await asked(ann, chat, "about zebras"), End.finished(None), "Stripes.")
    question = await Message.objects.aget(chat=chat, role="user")
    await ann.post(f"/messages/{question.pk}/edit", text="about lions")
    page = await ann.get("/chats/?q=zebras")
    assert f'action="/messages/{question.pk}/choose"' in page.html
    assert "In another version" in page.text
    reply = await ann.client.post(f"/messages/{question.pk}/choose", {"found": "1"})
    assert reply.headers["Location"] == f"/chats/{chat.pk}/?at=1#message-{question.pk}"
    page = await ann.get(f"/chats/{chat.pk}/?at=1")
    assert f'id="message-{question.pk}"' in page.html
    page = await ann.get("/chats/?q=zebras")
    assert f'href="/chats/{chat.pk}/?at=1#message-{question.pk}"' in page.html, "it is shown now"
    assert "In another version" not in page.text


async def test_words_of_an_answer_that_went_on_have_a_place_in_it(
    ann: Browser, chat: Chat, store: MemoryStore
) -> None:
    await finished(store, await asked(ann, chat), End.finished("length"), "About giraffes")
    begun = await answer_to(chat)
    await ann.post(f"/messages/{begun.pk}/continue")
    page = await ann.get("/chats/?q=giraffes")
    place = f"/chats/{chat.pk}/?at={begun.position}#message-{begun.pk}"
    assert f'href="{place}"' in page.html
    page = await ann.get(place)
    assert f'id="message-{begun.pk}"' in page.html
