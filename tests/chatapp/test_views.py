"""The page from the server: whole without scripts, and a sound start for them."""

from __future__ import annotations

import json
import re
from html import unescape
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from django.test import AsyncClient

from chatapp.models import Chat, Message, Response, User
from chatapp.services.settling import record
from chatapp.templatetags import words
from relay import Snapshot, Status
from relay.errors import ErrorKind
from relay.events import Notice
from relay.generate import End
from relay.states import Interruption, Shortfall, StopReason
from tests.js_parts import ANSWER_PARTS
from tests.relay.scribe import Scribe

if TYPE_CHECKING:
    from pathlib import Path

    from relay import MemoryStore

pytestmark = pytest.mark.django_db(transaction=True)


class Page:
    """What came back, as a person or a script reads it."""

    def __init__(self, response: Any) -> None:
        self.status = response.status_code
        self.headers = response.headers
        self.html = response.content.decode()

    def json(self, script_id: str) -> Any:
        found = re.search(
            rf'<script id="{script_id}" type="application/json">(.*?)</script>', self.html, re.S
        )
        assert found, f"no data {script_id!r} in the page"
        return json.loads(found[1])

    @property
    def text(self) -> str:
        """Without scripts, templates and what is hidden."""
        html = re.sub(r"<(script|template|style)\b.*?</\1>", "", self.html, flags=re.S)
        html = re.sub(r"<(\w+)[^>]*\shidden[^>]*>.*?</\1>", "", html, flags=re.S)
        return " ".join(unescape(re.sub(r"<[^>]+>", " ", html)).split())

    @property
    def box(self) -> str:
        found = re.search(r"<textarea[^>]*>\n(.*?)</textarea>", self.html, re.S)
        assert found, "no box in the page"
        return unescape(found[1])

    @property
    def key(self) -> str:
        found = re.search(r'name="key" value="(\w+)"', self.html)
        assert found, "no key in the page"
        return found[1]


class Browser:
    """A signed-in person without scripts: looks at pages, sends forms, follows redirects."""

    def __init__(self, user: User | None) -> None:
        self.client = AsyncClient()
        self._user = user

    async def get(self, path: str) -> Page:
        await self._sign_in()
        return Page(await self.client.get(path))

    async def post(self, path: str, **fields: str) -> Page:
        await self._sign_in()
        reply: Any = await self.client.post(path, fields)
        return (
            Page(reply) if reply.status_code != 302 else await self.get(reply.headers["Location"])
        )

    async def _sign_in(self) -> None:
        if self._user is not None:
            await self.client.aforce_login(self._user)
            self._user = None


@pytest.fixture(autouse=True)
def _static_files_as_they_are(settings: Any, tmp_path: Path) -> None:
    """Hashed names are test_static.py's; here nothing was collected."""
    settings.STATIC_ROOT = str(tmp_path)
    plain = {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}
    settings.STORAGES = settings.STORAGES | {"staticfiles": plain}


@pytest.fixture
def ann(user: User, store: MemoryStore) -> Browser:
    return Browser(user)


async def asked(ann: Browser, chat: Chat, text: str = "How do tides work?") -> Response:
    page = await ann.post(f"/chats/{chat.pk}/send", text=text)
    assert page.status == 200
    return await Response.objects.filter(chat=chat).afirst() or pytest.fail("nothing was asked")


async def writing(store: MemoryStore, response: Response, *deltas: str) -> Scribe:
    """A worker that has written this much."""
    scribe = Scribe(store)
    scribe.rid, scribe.seq = response.pk, 1
    await scribe.claim()
    if deltas:
        await scribe.say(*deltas)
    return scribe


async def finished(store: MemoryStore, response: Response, end: End, *deltas: str) -> None:
    scribe = await writing(store, response, *deltas)
    await scribe.end(end)
    await record(response.pk)


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


async def test_a_form_without_its_token_changes_nothing(user: User, chat: Chat) -> None:
    client = AsyncClient(enforce_csrf_checks=True)
    await client.aforce_login(user)
    reply = await client.post(f"/chats/{chat.pk}/send", {"text": "hi"})
    assert reply.status_code == 403
    assert "Nothing was sent" in reply.content.decode()
    assert not await Message.objects.aexists()


async def test_a_form_sent_after_the_session_ended_leads_back_to_its_page(
    ann: Browser, user: User, chat: Chat
) -> None:
    response = await asked(ann, chat)
    nobody = Browser(None)
    for path in ("/chats/new", f"/chats/{chat.pk}/send", f"/responses/{response.pk}/stop"):
        reply: Any = await nobody.client.post(path, {"text": "hi"})
        assert reply.status_code == 302
        assert reply.headers["Location"] == f"/account/login/?next={path}"
        assert (await ann.client.get(path)).status_code == 302
    await response.arefresh_from_db()
    assert response.stop_requested_at is None


async def test_the_first_message_makes_a_chat_that_is_listed_by_it(ann: Browser) -> None:
    page = await ann.post("/chats/new", text="How do tides work?", model="other", key="k1")
    chat = await Chat.objects.aget()
    assert page.status == 200
    assert f'href="/chats/{chat.pk}/" aria-current="page"' in page.html
    assert "How do tides work?" in page.text
    assert (await Response.objects.aget()).model == "other"


async def test_a_form_sent_twice_is_one_message(ann: Browser) -> None:
    for _ in range(2):
        await ann.post("/chats/new", text="hi", key="k1")
    assert await Chat.objects.acount() == 1
    chat = await Chat.objects.aget()
    await Response.objects.aupdate(status="failed", ended_at=chat.created_at)
    for _ in range(2):
        await ann.post(f"/chats/{chat.pk}/send", text="and now?", key="k2")
    assert await Response.objects.acount() == 2


async def test_a_form_of_the_back_button_with_another_text_is_another_message(
    ann: Browser, chat: Chat
) -> None:
    await ann.post(f"/chats/{chat.pk}/send", text="one", key="k")
    await Response.objects.aupdate(status="failed", ended_at=chat.created_at)
    page = await ann.post(f"/chats/{chat.pk}/send", text="two", key="k")
    assert page.status == 200
    assert await Response.objects.acount() == 2


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


async def test_a_retry_takes_the_place_of_the_answer_and_keeps_its_words(
    ann: Browser, chat: Chat, store: MemoryStore
) -> None:
    response = await asked(ann, chat)
    await finished(store, response, End.interrupted(Interruption.WORKER_LOST), "Half an answer")
    page = await ann.post(f"/responses/{response.pk}/retry")
    again = await Response.objects.aget(retry_of=response)
    assert page.status == 200
    assert f'data-answer="{again.pk}"' in page.html
    assert f'data-answer="{response.pk}"' not in page.html
    assert "An earlier try · Interrupted Half an answer" in page.text


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
    assert page.status == 409
    assert words.table()["retry"]["kept"] in page.text


async def test_stop_ends_a_queued_answer_and_says_so(ann: Browser, chat: Chat) -> None:
    response = await asked(ann, chat)
    page = await ann.post(f"/responses/{response.pk}/stop")
    assert "Stopped You stopped this answer. Nothing had been written." in page.text
    await response.arefresh_from_db()
    assert (response.status, response.reason, response.stop_by) == ("cancelled", "user", "ann")


async def test_a_stop_that_cannot_be_stored_is_not_called_stopped(
    ann: Browser, chat: Chat, store: MemoryStore
) -> None:
    response = await asked(ann, chat)
    store.faults.fail("cancel")
    page = await ann.post(f"/responses/{response.pk}/stop", text="typed meanwhile")
    assert page.status == 503
    assert words.trouble("stop", 503) in page.text
    assert page.box == "typed meanwhile"


TYPED = '  Two lines\nof <text> & "more"\n'


@pytest.mark.parametrize("where", ["home", "chat"])
async def test_a_send_while_redis_is_away_loses_nothing_and_writes_nothing(
    ann: Browser, chat: Chat, store: MemoryStore, where: str
) -> None:
    store.faults.fail("reserve")
    path = "/chats/new" if where == "home" else f"/chats/{chat.pk}/send"
    page = await ann.post(path, text=TYPED, model="other", key="k")
    assert page.status == 503
    assert page.headers["Retry-After"] == "5"
    assert words.trouble("send", 503) in page.text
    assert page.box == TYPED
    assert '<option value="other" selected>' in page.html
    assert not await Message.objects.aexists()
    page = await ann.post(path, text=TYPED, key=page.key)
    assert (page.status, page.box) == (200, "")
    assert await Message.objects.filter(text=TYPED).aexists()


async def test_a_chat_whose_first_message_was_not_taken_is_not_listed(
    ann: Browser, store: MemoryStore
) -> None:
    store.faults.fail("reserve")
    page = await ann.post("/chats/new", text="hi")
    assert "Your chats will be listed here." in page.text


@pytest.mark.parametrize(
    ("text", "model", "status", "sentence"),
    [
        ("", "", 422, "the text is empty"),
        ("hi", "none", 422, "There is no model 'none'."),
        ("x" * 200, "", 413, "at most 100 bytes"),
    ],
)
async def test_bad_input_is_told_and_given_back(
    ann: Browser, chat: Chat, settings: Any, text: str, model: str, status: int, sentence: str
) -> None:
    from dataclasses import replace

    settings.RELAY = replace(settings.RELAY, max_input_bytes=100)
    page = await ann.post(f"/chats/{chat.pk}/send", text=text, model=model)
    assert page.status == status
    assert sentence in page.text
    assert words.table()["send"]["kept"] in page.text
    assert page.box == text
    assert not await Message.objects.aexists()


async def test_a_second_send_to_a_chat_that_is_answering_is_refused_and_kept(
    ann: Browser, chat: Chat
) -> None:
    await asked(ann, chat)
    page = await ann.post(f"/chats/{chat.pk}/send", text="and another thing")
    assert page.status == 409
    assert words.trouble("send", 409) in page.text
    assert page.box == "and another thing"


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
    assert '<option value="other" selected>' in page.html


async def test_after_a_fallback_the_model_that_was_asked_for_stays_chosen(
    ann: Browser, chat: Chat, store: MemoryStore
) -> None:
    scribe = await writing(store, await asked(ann, chat))
    await scribe.tell(Notice(code="fallback", message="other answers instead.", model="other"))
    await scribe.say("The moon pulls.")
    await scribe.end()
    page = await ann.get(f"/chats/{chat.pk}/")
    assert '<option value="fast" selected>' in page.html


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


async def test_without_scripts_a_queued_message_is_seen_and_can_be_removed(
    ann: Browser, chat: Chat
) -> None:
    await Chat.objects.filter(pk=chat.pk).aupdate(double_text="queue")
    await asked(ann, chat)
    page = await ann.post(f"/chats/{chat.pk}/send", text="And what of the moon?")
    assert page.status == 200
    assert page.text.count(words.table()["state"]["queued"]) == 2
    assert page.text.count("Remove") == 1, "of what waits; what runs has Stop"
    assert 'data-part="send" hidden' not in page.html
    waiting = await Response.objects.aget(waits=True)
    page = await ann.post(f"/responses/{waiting.pk}/stop")
    assert page.text.count("Remove") == 0
    assert (await Response.objects.aget(pk=waiting.pk)).status == "cancelled"


async def test_a_full_queue_says_so_and_keeps_the_text(ann: Browser, chat: Chat) -> None:
    await Chat.objects.filter(pk=chat.pk).aupdate(double_text="queue")
    for n in range(6):
        await ann.post(f"/chats/{chat.pk}/send", text=f"message {n}")
    page = await ann.post(f"/chats/{chat.pk}/send", text="one too many")
    assert (page.status, page.box) == (429, "one too many")
    assert "5 messages wait in this chat already." in page.text
    assert "Then send again." in page.text
