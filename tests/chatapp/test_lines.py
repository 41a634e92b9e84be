"""One stream for all that a browser follows, message by message (PROTOCOL 15)."""

from __future__ import annotations

import asyncio
import re
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from asgiref.sync import sync_to_async
from django.contrib.sessions.models import Session
from django.test import AsyncClient

from chatapp import runtime, services
from chatapp.auth import make_key
from chatapp.lines import MOST
from chatapp.models import Chat, Message, Response, User
from relay import StopReason
from tests.chatapp.asgi_client import communicate
from tests.chatapp.conftest import Api, is_problem, scribe_of, talk
from tests.waiting import wait_until

if TYPE_CHECKING:
    from relay import MemoryStore
    from tests.chatapp.asgi_client import Event, Exchange, Site

ROOT = Path(__file__).resolve().parents[2]


def of(stream: Exchange, response_id: str) -> list[Event]:
    """What of a line belongs to one answer: as its own stream would have had it."""
    return [event for event in stream.events if event.id.startswith(f"{response_id} ")]


def verdicts(stream: Exchange) -> dict[str, int]:
    return {e.data["id"]: e.data["status"] for e in stream.events if e.type == "follow"}


def chats(stream: Exchange) -> list[dict[str, Any]]:
    return [event.data for event in stream.events if event.type == "chat"]


async def until(stream: Exchange, is_true: Any) -> None:
    while not is_true():
        assert not stream.complete, stream.received
        await stream.chunk()


async def test_two_answers_come_on_one_line_each_with_its_own_numbers(
    api: Api, site: Site, store: MemoryStore, bearer: str
) -> None:
    """PROTOCOL 15.1"""
    ids, scribes = [], []
    for _ in range(2):
        ids.append(await api.ask())
        scribes.append(await scribe_of(store, ids[-1]))
    await scribes[0].say("a", "b")
    url = f"/api/events?follow={ids[0]},,3&follow={ids[1]}"
    async with site.request("GET", url, authorization=bearer) as stream:
        assert stream.headers["Content-Type"] == "text/event-stream; charset=utf-8"
        await until(stream, lambda: len(of(stream, ids[1])) == 2)
        await scribes[1].say("c")
        await scribes[0].end()
        await scribes[1].end()
        await stream.rest()
    assert verdicts(stream) == dict.fromkeys(ids, 200)
    assert [event.id.split()[1] for event in of(stream, ids[0])] == ["4", "5"]
    assert [event.type for event in of(stream, ids[1])] == [
        "created",
        "started",
        "text.delta",
        "ended",
    ]
    closed = [event.data["id"] for event in stream.events if event.type == "closed"]
    assert sorted(closed) == sorted(ids)


@pytest.mark.parametrize("cursor", range(7))
async def test_every_cursor_gets_what_its_own_stream_would_give(
    api: Api, site: Site, store: MemoryStore, bearer: str, cursor: int
) -> None:
    rid = await api.ask()
    scribe = await scribe_of(store, rid)
    await scribe.say("a", "b id: 9\nid: 10\n", "c")
    await scribe.end()
    one = await site.whole(
        "GET", f"/api/responses/{rid}/events?after={cursor}", authorization=bearer
    )
    line = await site.whole("GET", f"/api/events?follow={rid},,{cursor}", authorization=bearer)
    told = [(event.id.removeprefix(f"{rid} "), event.type, event.data) for event in of(line, rid)]
    assert told == [(event.id, event.type, event.data) for event in one.events]
    assert verdicts(line) == {rid: one.status_code}


async def test_a_cursor_of_another_history_and_a_wish_for_one_get_a_snapshot(
    api: Api, site: Site, store: MemoryStore, bearer: str
) -> None:
    rid = await api.ask()
    scribe = await scribe_of(store, rid)
    await scribe.say("so far")
    await scribe.end()
    for what in (",snapshot", ",77,3", ",,99"):
        line = await site.whole("GET", f"/api/events?follow={rid}{what}", authorization=bearer)
        first = of(line, rid)[0]
        assert (first.type, first.data["text"], first.id) == ("snapshot", "so far", f"{rid} 4"), (
            what
        )


async def test_what_is_not_theirs_is_refused_on_the_line_and_the_rest_is_carried(
    api: Api, site: Site, store: MemoryStore, bearer: str, stranger: User
) -> None:
    """Law 15"""

    rid = await api.ask()
    await (await scribe_of(store, rid)).end()
    theirs = await Api(await sync_to_async(make_key)(stranger)).ask("secret")
    url = f"/api/events?follow={theirs}&follow={rid}&follow=resp_0_nothing"
    line = await site.whole("GET", url, authorization=bearer)
    assert verdicts(line) == {theirs: 404, rid: 200, "resp_0_nothing": 404}
    assert not of(line, theirs)
    assert of(line, rid)[-1].type == "ended"


@pytest.mark.parametrize(
    "query",
    [
        *("", "follow=", "follow=a,b", "follow=a,1,x", "follow=a,snapshot,1", "changes=x"),
        *("changes=999999999999999999", "changes&viewer=%20", f"follow={'x' * 49}"),
        *("follow=resp_0_%00", "follow=a%0Aevent:%20ended", "follow=%C3%A9"),
        "&".join(f"follow=resp_0_{n}" for n in range(MOST + 1)),
    ],
)
async def test_a_line_that_cannot_be_is_a_problem(
    api: Api, site: Site, bearer: str, query: str
) -> None:
    is_problem(await site.whole("GET", f"/api/events?{query}", authorization=bearer), 400)


async def test_a_viewer_of_a_line_is_present_at_all_its_answers(
    api: Api, site: Site, store: MemoryStore, bearer: str
) -> None:
    """PROTOCOL 7.1, 15.3"""
    ids = [await api.ask(), await api.ask()]
    url = f"/api/events?viewer=v1&follow={ids[0]}&follow={ids[1]}"
    async with site.request("GET", url, authorization=bearer) as stream:
        await until(stream, lambda: len(verdicts(stream)) == 2)
        for rid in ids:
            log = store._logs.get(rid)
            assert log is not None
            assert [name for name in log.presence._until if name.endswith("/v1")]
        await stream.disconnect()


async def test_who_is_gone_before_the_line_is_open_is_not_present(
    api: Api, site: Site, store: MemoryStore, bearer: str
) -> None:
    """Law 8: a page that goes at once has said so already, and would count for minutes."""
    rid = await api.ask()
    url = f"/api/events?viewer=v1&changes&follow={rid}"
    line = communicate(site.application, "GET", url, {"authorization": bearer})
    await line.send_input({"type": "http.request", "body": b"", "more_body": False})
    await line.send_input({"type": "http.disconnect"})
    await line.wait(10)
    log = store._logs.get(rid)
    assert log is not None
    assert [name for name in log.presence._until if name.endswith("/v1")] == []


async def test_changes_are_told_as_they_happen_on_any_device(
    api: Api, site: Site, store: MemoryStore, bearer: str, user: User
) -> None:
    async with site.request("GET", "/api/events?changes", authorization=bearer) as stream:
        await stream.until("changes")
        chat = await services.start_chat(user=user)
        sent = await services.send_message(user=user, chat=chat, text="What is a tide?")
        await until(stream, lambda: chats(stream))
        told = chats(stream)[-1]
        assert (told["id"], told["title"]) == (str(chat.pk), "What is a tide?")
        assert (told["running"], told["response"]) == (sent.response.pk, sent.response.pk)
        await services.cancel(response=sent.response, by=user, reason=StopReason.USER)
        await until(stream, lambda: chats(stream)[-1]["running"] is None)
        assert chats(stream)[-1]["status"] == "cancelled"
        await services.update_chat(chat=chat, title="Tides", pinned=True)
        await until(stream, lambda: chats(stream)[-1]["title"] == "Tides")
        assert chats(stream)[-1]["pinned"]
        await services.hide_chat(chat=chat)
        await until(stream, lambda: chats(stream)[-1]["deleted"])
        await services.restore_chat(user=user, chat_id=chat.pk)
        await until(stream, lambda: not chats(stream)[-1]["deleted"])
        assert await stream.quiet(), "nothing is told twice"
        await services.delete_chat(chat=chat, by=user)
        await until(stream, lambda: chats(stream)[-1]["deleted"])
        assert (chats(stream)[-1]["id"], chats(stream)[-1]["title"]) == (str(chat.pk), "")
        await stream.disconnect()
    assert not await Message.objects.filter(chat=chat).aexists(), "gone at once"
    assert not await services.restore_chat(user=user, chat_id=chat.pk), "and for good"


async def test_a_refusal_is_in_the_language_that_was_asked_for(
    api: Api, site: Site, bearer: str
) -> None:
    wanted = {"en": "There is no such", "de": "Diese Antwort gibt es nicht", "ar": "لا توجد"}
    url = "/api/responses/x/events"
    for language, sentence in wanted.items():
        headers = {"authorization": bearer, "accept-language": language}
        reply = await site.whole("GET", url, **headers)
        is_problem(reply, 404)
        assert reply.json()["detail"].startswith(sentence)


async def test_who_comes_back_is_told_what_changed_meanwhile_and_nobody_elses(
    api: Api, site: Site, store: MemoryStore, bearer: str, user: User, stranger: User
) -> None:
    async with site.request("GET", "/api/events?changes", authorization=bearer) as stream:
        (event,) = await stream.until("changes")
        cursor = event.data["at"]
        await stream.disconnect()
    for who, text in ((user, "mine"), (stranger, "not mine")):
        chat = await services.start_chat(user=who)
        await services.send_message(user=who, chat=chat, text=text)
    url = f"/api/events?changes={cursor}"
    async with site.request("GET", url, authorization=bearer) as stream:
        await until(stream, lambda: chats(stream))
        assert [chat["title"] for chat in chats(stream)] == ["mine"]
        await stream.disconnect()


async def test_another_branch_that_is_shown_is_a_change(
    api: Api, site: Site, store: MemoryStore, bearer: str, user: User
) -> None:
    chat = await services.start_chat(user=user, title="Tides")
    first, *_ = await sync_to_async(talk)(chat, "hello", "hi")
    await Chat.objects.filter(pk=chat.pk).aupdate(changed_at=runtime.now() - timedelta(hours=1))
    async with site.request("GET", "/api/events?changes", authorization=bearer) as stream:
        await stream.until("changes")
        last = await services.choose(message=first)
        await until(stream, lambda: chats(stream))
        assert chats(stream)[-1]["last"] == last
        await stream.disconnect()


async def test_who_missed_more_than_a_page_of_changes_is_told_to_look_anew(
    api: Api, site: Site, store: MemoryStore, bearer: str, user: User
) -> None:
    now = runtime.now()
    rows = [
        Chat(user=user, title=f"{n}", model="fast", updated_at=now, changed_at=now)
        for n in range(services.MOST + 1)
    ]
    await Chat.objects.abulk_create(rows)
    url = f"/api/events?changes={services.cursor(now) - 1}"
    async with site.request("GET", url, authorization=bearer) as stream:
        await stream.until("stale")
        await stream.disconnect()


async def test_a_line_ends_with_its_session_and_with_its_process(
    api: Api, site: Site, store: MemoryStore, user: User
) -> None:
    """PROTOCOL 11.1"""
    browser = AsyncClient()
    await browser.aforce_login(user)
    cookie = f"sessionid={browser.cookies['sessionid'].value}"
    rid = await api.ask()
    url = f"/api/events?changes&follow={rid}"
    async with site.request("GET", url, cookie=cookie) as stream:
        await until(stream, lambda: of(stream, rid))
        runtime.hub().move_on()
        await stream.rest()
        assert b"going away" in stream.received
    runtime.hub().leaving = False
    async with site.request("GET", url, cookie=cookie) as stream:
        await until(stream, lambda: of(stream, rid))
        await Session.objects.all().adelete()
        await site.application.live.check()
        await stream.rest()
        assert b"no longer valid" in stream.received
    assert (await site.whole("GET", url, cookie=cookie)).status_code == 401


async def test_a_line_that_is_left_leaves_nothing_behind(
    api: Api, site: Site, store: MemoryStore, bearer: str
) -> None:
    rid = await api.ask()
    url = f"/api/events?changes&follow={rid}"
    async with site.request("GET", url, authorization=bearer) as stream:
        await until(stream, lambda: of(stream, rid))
        await stream.disconnect()

    def left() -> bool:
        coros = [str(task.get_coro()) for task in asyncio.all_tasks()]
        return not any("Lines" in c or "Feed" in c or "shut_when_gone" in c for c in coros)

    assert await wait_until(left, "the tasks of the line to end", timeout=10)


async def test_an_answer_of_which_only_the_record_is_left_is_told_and_closed(
    api: Api, site: Site, store: MemoryStore, bearer: str
) -> None:
    rid = await api.ask()
    row = await Response.objects.select_related("user").aget(pk=rid)
    await services.cancel(response=row, by=row.user, reason=StopReason.USER)
    await store.retire(rid)
    line = await site.whole("GET", f"/api/events?follow={rid}", authorization=bearer)
    assert [event.type for event in of(line, rid)] == ["snapshot", "ended"]
    epoch, seq = of(line, rid)[0].data["epoch"], of(line, rid)[0].data["seq"]
    line = await site.whole("GET", f"/api/events?follow={rid},{epoch},{seq}", authorization=bearer)
    assert verdicts(line) == {rid: 204}


def test_the_page_follows_as_many_answers_as_a_line_carries() -> None:
    leader = (ROOT / "static" / "chat" / "leader.js").read_text()
    assert re.findall(r"^const MOST = (\d+);$", leader, re.MULTILINE) == [str(MOST)]
