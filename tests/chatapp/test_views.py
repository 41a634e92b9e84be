"""The page from the server: whole without scripts, and a sound start for them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest
from django.test import AsyncClient

from chatapp.templatetags import words
from relay import Snapshot, Status
from relay.errors import ErrorKind
from relay.events import Notice
from relay.generate import End
from relay.states import Interruption, Shortfall, StopReason
from tests.chatapp.pages import Browser, asked, finished, writing
from tests.js_parts import ANSWER_PARTS

if TYPE_CHECKING:
    from chatapp.models import Chat, User
    from relay import MemoryStore

pytestmark = pytest.mark.django_db(transaction=True)


async def test_nobody_sees_anything_without_signing_in(store: MemoryStore, chat: Chat) -> None:
    client = AsyncClient()
    for path in ("/", f"/chats/{chat.pk}/"):
        reply = await client.get(path)
        assert (reply.status_code, reply.headers["Location"].split("?")[0]) == (
            302,
            "/account/login/",
        )


async def test_somebody_elses_chat_and_answer_are_not_there(
    store: MemoryStore, user: User, stranger: User, chat: Chat
) -> None:
    response = await asked(Browser(user), chat)
    bob = Browser(stranger)
    assert (await bob.get(f"/chats/{chat.pk}/")).status == 404
    assert (await bob.post(f"/chats/{chat.pk}/send", text="hi")).status == 404
    for verb in ("stop", "retry"):
        assert (await bob.post(f"/responses/{response.pk}/{verb}")).status == 404
    await response.arefresh_from_db()
    assert response.stop_requested_at is None


async def test_a_running_answer_comes_with_its_snapshot_and_cursor(
    ann: Browser, chat: Chat, store: MemoryStore
) -> None:
    response = await asked(ann, chat)
    await writing(store, response, "A tide is\n\nthe slow", " rise <of> the sea")
    page = await ann.get(f"/chats/{chat.pk}/")
    snapshot = page.json(f"snapshot-{response.pk}")
    assert (snapshot["seq"], snapshot["status"]) == (4, "in_progress")
    assert snapshot["epoch"] > 0
    assert snapshot["text"] == "A tide is\n\nthe slow rise <of> the sea"
    assert "<p>A tide is</p><p>the slow rise &lt;of&gt; the sea</p>" in page.html
    assert f'data-answer="{response.pk}" data-status="in_progress" data-running' in page.html
    assert f'formaction="/responses/{response.pk}/stop"' in page.html
    assert words.table()["state"]["writing"] in page.text


async def test_without_scripts_a_running_answer_is_loaded_anew_and_an_ended_one_is_not(
    ann: Browser, chat: Chat, store: MemoryStore
) -> None:
    refresh = '<noscript><meta http-equiv="refresh" content="3"></noscript>'
    response = await asked(ann, chat)
    page = await ann.get(f"/chats/{chat.pk}/")
    assert refresh in page.html
    assert f"/api/responses/{response.pk}?viewer=without-scripts" in page.html
    await finished(store, response, End.finished("stop"), "Whole.")
    page = await ann.get(f"/chats/{chat.pk}/")
    assert refresh not in page.html
    assert "snapshot-" not in page.html


ENDS = [
    (End.finished("stop"), Status.COMPLETED, None),
    (End.finished("length"), Status.INCOMPLETE, Shortfall.MAX_TOKENS),
    (End.failed(ErrorKind.TRUNCATED, "m"), Status.FAILED, ErrorKind.TRUNCATED),
    (End.cancelled("user"), Status.CANCELLED, StopReason.USER),
    (End.interrupted(Interruption.WORKER_LOST), Status.INTERRUPTED, Interruption.WORKER_LOST),
]


@pytest.mark.parametrize(("end", "status", "reason"), ENDS, ids=[str(s) for _, s, _ in ENDS])
async def test_each_end_keeps_the_words_and_says_what_it_is(
    ann: Browser, chat: Chat, store: MemoryStore, end: End, status: Status, reason: str | None
) -> None:
    response = await asked(ann, chat)
    await finished(store, response, end, "Kept words.")
    page = await ann.get(f"/chats/{chat.pk}/")
    assert "Kept words." in page.text
    assert f'data-status="{status}"' in page.html
    told = words.end_of(Snapshot(status=status, reason=reason, text="Kept words."))
    if status is Status.COMPLETED:
        assert 'data-part="end" hidden' in page.html
    else:
        assert f"{told.label} {told.sentence}" in page.text
    assert page.text.count("Try again") == told.sentence.count("Try again") + told.retry


async def test_only_the_last_answer_offers_to_be_tried_again(
    ann: Browser, chat: Chat, store: MemoryStore
) -> None:
    response = await asked(ann, chat)
    await finished(store, response, End.interrupted(Interruption.WORKER_LOST), "Half")
    assert "Try again</button>" in (await ann.get(f"/chats/{chat.pk}/")).html.replace("</svg>", "")
    await asked(ann, chat, "Never mind")
    page = await ann.get(f"/chats/{chat.pk}/")
    assert page.html.count('data-part="retry" hidden') == 3  # two answers and the template
    page = await ann.post(f"/responses/{response.pk}/retry")
    assert page.status == 409, "the chat is answering"
    assert words.table()["retry"]["kept"] in page.text


async def test_a_page_can_be_read_while_redis_is_away(
    ann: Browser, chat: Chat, store: MemoryStore
) -> None:
    response = await asked(ann, chat)
    store.faults.fail("read", times=5)
    store.faults.fail("tails", times=5)
    page = await ann.get(f"/chats/{chat.pk}/")
    assert page.status == 200
    assert "How do tides work?" in page.text
    assert page.json(f"snapshot-{response.pk}")["status"] == "queued"


async def test_running_chats_are_marked_in_the_list(ann: Browser, chat: Chat) -> None:
    assert "An answer is being written" not in (await ann.get("/")).text
    await asked(ann, chat)
    assert "An answer is being written" in (await ann.get("/")).text


async def test_the_model_of_the_last_answer_stays_chosen(ann: Browser, chat: Chat) -> None:
    await ann.post(f"/chats/{chat.pk}/send", text="hi", model="other")
    page = await ann.get(f"/chats/{chat.pk}/")
    assert '<option value="other" selected' in page.html


async def test_after_a_fallback_the_model_that_was_asked_for_stays_chosen(
    ann: Browser, chat: Chat, store: MemoryStore
) -> None:
    scribe = await writing(store, await asked(ann, chat))
    await scribe.tell(Notice(code="fallback", message="other answers instead.", model="other"))
    await scribe.say("The moon pulls.")
    await scribe.end()
    page = await ann.get(f"/chats/{chat.pk}/")
    assert '<option value="fast" selected' in page.html


async def test_what_scripts_are_told_fits_the_addresses_there_are(ann: Browser, chat: Chat) -> None:
    data = (await ann.get(f"/chats/{chat.pk}/")).json("page")
    assert data["stop_url"] == "/responses/RESPONSE/stop"
    assert data["retry_url"] == "/responses/RESPONSE/retry"
    assert (await ann.get("/")).json("page")["chat_url"] == "/chats/CHAT/"
    assert (await ann.get("/")).json("words") == words.table()


async def test_the_template_for_scripts_has_every_part_they_look_for(
    ann: Browser, chat: Chat
) -> None:
    html = (await ann.get(f"/chats/{chat.pk}/")).html
    found = re.search(r'<template id="turn">(.*?)</template>', html, re.S)
    assert found
    assert set(re.findall(r'data-part="([\w-]+)"', found[1])) == {*ANSWER_PARTS, "question"}


async def test_no_page_has_anything_inline_that_its_policy_forbids(
    ann: Browser, chat: Chat, store: MemoryStore
) -> None:
    await finished(store, await asked(ann, chat), End.cancelled("user"), "a")
    for path in ("/", f"/chats/{chat.pk}/", "/account/password/", f"/chats/{uuid4()}/"):
        page = await ann.get(path)
        assert "require-trusted-types-for 'script'" in page.headers["Content-Security-Policy"]
        assert not re.search(r"\son\w+=|\sstyle=|javascript:|<style|<iframe|<base", page.html)
        for script in re.findall(r"<script\b[^>]*>", page.html):
            assert "src=" in script or 'type="application/json"' in script


async def test_a_page_that_is_not_there_says_so_in_the_house_style(ann: Browser) -> None:
    page = await ann.get(f"/chats/{uuid4()}/")
    assert page.status == 404
    assert "There is nothing here" in page.text


async def test_people_sign_in_change_their_password_and_sign_out(user: User) -> None:
    nobody = Browser(None)
    page = await nobody.post("/account/login/", login="ann", password="wrong")
    assert "not correct" in page.text
    page = await nobody.post("/account/login/", login="ann", password="correct horse")
    assert "What would you like to know?" in page.text
    new = "a longer phrase of words"
    page = await nobody.post(
        "/account/password/", oldpassword="correct horse", password1=new, password2=new
    )
    assert "Your password is changed." in page.text
    page = await nobody.post("/account/logout/")
    assert "You are signed out." in page.text
    page = await nobody.post("/account/login/", login="ann", password=new)
    assert "What would you like to know?" in page.text
