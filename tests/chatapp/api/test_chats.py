"""`/api/chats`: conversations over HTTP."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest
from asgiref.sync import sync_to_async

from chatapp.auth import make_key
from chatapp.models import Chat, Message, Response, User
from relay import GenerationRequest
from tests.chatapp.conftest import Api, is_problem, scribe_of, talk

if TYPE_CHECKING:
    from relay import MemoryStore


async def test_a_chat_is_begun_with_the_default_model(api: Api) -> None:
    reply = await api.post("/api/chats", {})
    assert reply.status_code == 201
    body = reply.json()
    assert (body["title"], body["model"]) == ("", "fast")
    assert (await api.get(f"/api/chats/{body['id']}")).json() == body


async def test_a_chat_is_begun_as_asked(api: Api) -> None:
    body = (await api.post("/api/chats", {"title": " On  tea\n", "model": "other"})).json()
    assert (body["title"], body["model"]) == ("On tea", "other")


async def test_chats_are_listed_newest_first_and_in_pages(api: Api, stranger: User) -> None:
    ids = [(await api.post("/api/chats", {"title": f"{n}"})).json()["id"] for n in range(3)]
    await Chat.objects.acreate(user=stranger, model="fast", updated_at="2026-01-01T00:00:00Z")
    page = (await api.get("/api/chats?limit=2")).json()
    assert [chat["id"] for chat in page["data"]] == [ids[2], ids[1]]
    assert page["has_more"] is True
    page = (await api.get(f"/api/chats?limit=2&before={ids[1]}")).json()
    assert [chat["id"] for chat in page["data"]] == [ids[0]]
    assert page["has_more"] is False


async def test_a_chat_is_renamed_and_gets_another_model(api: Api, chat: Chat) -> None:
    reply = await api.patch(f"/api/chats/{chat.pk}", {"title": "New", "model": "other"})
    assert (reply.json()["title"], reply.json()["model"]) == ("New", "other")
    is_problem(await api.patch(f"/api/chats/{chat.pk}", {"title": " "}), 422)
    assert is_problem(await api.patch(f"/api/chats/{chat.pk}", {"model": "x"}), 422)["models"]
    assert (await Chat.objects.aget(pk=chat.pk)).title == "New"


async def test_how_its_model_is_asked_is_a_chats_own(api: Api, chat: Chat) -> None:
    url = f"/api/chats/{chat.pk}"
    body = {"system_prompt": "Be brief.", "temperature": 0.5, "max_output_tokens": 99}
    reply = (await api.patch(url, body | {"pinned": True})).json()
    assert {name: reply[name] for name in body} == body
    assert reply["pinned"] is True
    cleared = dict.fromkeys(body) | {"pinned": False}
    reply = (await api.patch(url, cleared)).json()
    assert (reply["system_prompt"], reply["temperature"], reply["max_output_tokens"]) == (
        "",
        None,
        None,
    )
    assert reply["pinned"] is False
    for bad in ({"temperature": 3}, {"max_output_tokens": 0}, {"pinned": "perhaps"}):
        is_problem(await api.patch(url, bad), 422)


async def test_a_message_is_answered_as_a_response(
    api: Api, chat: Chat, store: MemoryStore
) -> None:
    reply = await api.post(f"/api/chats/{chat.pk}/messages", {"text": "What is tea?"})
    assert reply.status_code == 202
    rid = reply.json()["id"]
    assert reply.headers["Location"] == f"/api/responses/{rid}"
    scribe = await scribe_of(store, rid)
    await scribe.say("A drink.")
    await scribe.end()
    page = (await api.get(f"/api/chats/{chat.pk}/messages")).json()
    asked, answer = page["data"]
    assert (asked["id"], asked["role"], asked["text"], asked["position"]) == (
        reply.json()["message_id"],
        "user",
        "What is tea?",
        1,
    )
    assert (answer["role"], answer["position"], answer["response_id"]) == ("assistant", 2, rid)
    assert answer["status"] == "queued"  # the log knows better until its end is recorded
    assert (await Chat.objects.aget(pk=chat.pk)).title == "What is tea?"


async def test_messages_come_in_pages_oldest_first(api: Api, chat: Chat) -> None:
    await sync_to_async(talk)(chat, "1", "2", "3", "4", "5")
    page = (await api.get(f"/api/chats/{chat.pk}/messages?limit=2")).json()
    assert [message["text"] for message in page["data"]] == ["4", "5"]
    assert page["has_more"] is True
    page = (await api.get(f"/api/chats/{chat.pk}/messages?limit=4&before=4")).json()
    assert [message["text"] for message in page["data"]] == ["1", "2", "3"]
    assert page["has_more"] is False


async def test_a_second_message_is_409_while_the_first_is_answered(api: Api, chat: Chat) -> None:
    url = f"/api/chats/{chat.pk}/messages"
    first = (await api.post(url, {"text": "one"})).json()["id"]
    problem = is_problem(await api.post(url, {"text": "two"}), 409)
    assert problem["response_id"] == first
    assert problem["detail"].endswith("send again.")
    assert await Message.objects.acount() == 2


async def test_the_next_message_may_follow_the_end_at_once(
    api: Api, chat: Chat, store: MemoryStore
) -> None:
    url = f"/api/chats/{chat.pk}/messages"
    rid = (await api.post(url, {"text": "one"})).json()["id"]
    scribe = await scribe_of(store, rid)
    await scribe.say("first answer")
    await scribe.end()  # seen by the client, and not in the database yet
    second = await api.post(url, {"text": "two"})
    assert second.status_code == 202
    row = await Response.objects.aget(pk=second.json()["id"])
    assert GenerationRequest.from_json(row.request).messages == [
        {"role": "user", "content": "one"},
        {"role": "assistant", "content": "first answer"},
        {"role": "user", "content": "two"},
    ]


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"text": ""}, 422),
        ({"text": "   "}, 422),
        ({}, 422),
        ({"text": "x", "model": "none"}, 422),
        ({"text": "x", "on_disconnect": "never"}, 422),
        (b"{", 400),
    ],
)
async def test_a_bad_message_writes_nothing(
    api: Api, chat: Chat, body: object, status: int
) -> None:
    is_problem(await api.post(f"/api/chats/{chat.pk}/messages", body), status)
    assert await Message.objects.acount() == await Response.objects.acount() == 0


async def test_redis_away_keeps_the_chat_as_it_was(
    api: Api, chat: Chat, store: MemoryStore
) -> None:
    store.faults.unreachable = True
    reply = await api.post(f"/api/chats/{chat.pk}/messages", {"text": "hello"})
    is_problem(reply, 503)
    assert reply.headers["Retry-After"]
    assert await Message.objects.acount() == 0


async def test_deleting_a_chat_stops_it_and_keeps_the_bare_record(
    api: Api, chat: Chat, store: MemoryStore
) -> None:
    rid = (await api.post(f"/api/chats/{chat.pk}/messages", {"text": "secret"})).json()["id"]
    assert (await api.delete(f"/api/chats/{chat.pk}")).status_code == 204
    is_problem(await api.get(f"/api/chats/{chat.pk}"), 404)
    is_problem(await api.get(f"/api/responses/{rid}"), 404)
    row = await Response.objects.aget(pk=rid)
    assert (row.status, row.reason, row.chat_id) == ("cancelled", "user", None)
    assert "secret" not in json.dumps([row.request, row.fold, row.metadata])
    assert await store.tails([rid]) == [None]


async def test_somebody_elses_chat_is_not_there(api: Api, chat: Chat, stranger: User) -> None:
    other = Api(await asyncio.to_thread(make_key, stranger))
    for pk in (chat.pk, uuid4()):
        url = f"/api/chats/{pk}"
        is_problem(await other.get(url), 404)
        is_problem(await other.patch(url, {"title": "mine"}), 404)
        is_problem(await other.delete(url), 404)
        is_problem(await other.get(f"{url}/messages"), 404)
        is_problem(await other.post(f"{url}/messages", {"text": "hi"}), 404)
    is_problem(await other.get(f"/api/chats?before={chat.pk}"), 404)
    assert await Chat.objects.acount() == 1


async def test_the_api_describes_itself(api: Api) -> None:
    paths = (await api.get("/api/openapi.json")).json()["paths"]
    assert "/api/responses/{response_id}/events" in paths
    assert set(paths["/api/responses"]) == {"post"}
