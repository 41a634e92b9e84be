"""`/api/messages`: versions, continuations and the branch that is shown, over HTTP."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from chatapp.auth import make_key
from chatapp.models import Chat, Message, Response, User
from chatapp.services.settling import record
from relay import GenerationRequest
from relay.generate import End
from tests.chatapp.conftest import Api, is_problem, scribe_of

if TYPE_CHECKING:
    from relay import MemoryStore
    from tests.chatapp.asgi_client import Site


async def say(api: Api, chat: Chat, store: MemoryStore, *deltas: str, end: Any = None) -> Any:
    """What was accepted; the answer has ended."""
    reply = await api.post(f"/api/chats/{chat.pk}/messages", {"text": "one"})
    scribe = await scribe_of(store, reply.json()["id"])
    await scribe.say(*deltas)
    await (scribe.end(end) if end else scribe.end())
    await record(reply.json()["id"])
    return reply.json()


async def test_what_is_taken_names_the_messages_it_made_and_answers(
    api: Api, chat: Chat, store: MemoryStore
) -> None:
    said = await say(api, chat, store, "eins")
    assert said["message_id"] == said["question_id"]
    again = await api.post(f"/api/messages/{said['answer_id']}/regenerate", {"model": "other"})
    assert again.status_code == 202
    body = again.json()
    assert again.headers["Location"] == f"/api/responses/{body['id']}"
    assert (body["message_id"], body["question_id"]) == (body["answer_id"], said["question_id"])
    assert (await Response.objects.aget(pk=body["id"])).model == "other"
    problem = is_problem(
        await api.post(f"/api/messages/{said['question_id']}/edit", {"text": "two"}), 409
    )
    assert problem["response_id"] == body["id"]


async def test_the_list_is_the_branch_that_is_shown_and_all_of_them_on_request(
    api: Api, chat: Chat, store: MemoryStore
) -> None:
    said = await say(api, chat, store, "eins")
    edited = await api.post(f"/api/messages/{said['question_id']}/edit", {"text": "two"})
    assert edited.json()["message_id"] == edited.json()["question_id"] != said["question_id"]
    url = f"/api/chats/{chat.pk}/messages"

    async def texts(query: str = "") -> list[tuple[str, int | None]]:
        data = (await api.get(url + query)).json()["data"]
        return [(message["text"], message["parent_id"]) for message in data]

    assert await texts() == [("two", None), ("", edited.json()["question_id"])]
    everything = await texts("?all=1")
    assert everything[:2] == [("one", None), ("eins", said["question_id"])]
    assert len(everything) == 4
    reply = await api.post(f"/api/messages/{said['question_id']}/choose")
    assert reply.json() == {"chat_id": str(chat.pk), "message_id": said["answer_id"]}
    assert await texts() == everything[:2]


async def test_an_answer_is_continued_over_http_and_whoever_asked_may_watch(
    api: Api, chat: Chat, store: MemoryStore, site: Site, key: str
) -> None:
    said = await say(api, chat, store, "Half of ", end=End.cancelled("user"))
    url = f"/api/messages/{said['answer_id']}/continue"
    headers = {"authorization": f"Bearer {key}", "accept": "text/event-stream"}
    async with site.request("POST", url, b"{}", **headers) as reply:
        assert reply.status_code == 200
        assert reply.headers["Content-Type"].startswith("text/event-stream")
        await reply.disconnect()
    row = await Response.objects.exclude(pk=said["id"]).aget()
    request = GenerationRequest.from_json(row.request)
    assert (request.continues, request.messages[-1]["content"]) == (True, "Half of ")
    assert row.cancel_after_s == 300, "somebody watches"


async def test_a_key_makes_one_version(api: Api, chat: Chat, store: MemoryStore) -> None:
    said = await say(api, chat, store, "eins")
    url = f"/api/messages/{said['answer_id']}/regenerate"
    bodies = [(await api.post(url, {}, Idempotency_Key="k")).json() for _ in range(2)]
    assert bodies[0] == bodies[1]
    is_problem(await api.post(url, {"model": "other"}, Idempotency_Key="k"), 422)


@pytest.mark.parametrize(
    ("verb", "body", "status"),
    [
        ("edit", {"text": " "}, 422),
        ("edit", {}, 422),
        ("edit", {"text": "x", "model": "none"}, 422),
        ("regenerate", {"model": "none"}, 422),
        ("regenerate", {"text": "x"}, 422),
        ("continue", {}, 422),
    ],
)
async def test_what_cannot_be_done_writes_nothing(
    api: Api, chat: Chat, store: MemoryStore, verb: str, body: Any, status: int
) -> None:
    said = await say(api, chat, store, "eins")
    is_problem(await api.post(f"/api/messages/{said['question_id']}/{verb}", body), status)
    assert await Message.objects.acount() == 2


async def test_somebody_elses_message_is_not_there(
    api: Api, chat: Chat, store: MemoryStore, stranger: User
) -> None:
    said = await say(api, chat, store, "eins")
    other = Api(await asyncio.to_thread(make_key, stranger))
    for pk in (said["question_id"], 10**9, 10**30):
        for verb, body in (("edit", {"text": "x"}), ("regenerate", {}), ("choose", None)):
            is_problem(await other.post(f"/api/messages/{pk}/{verb}", body), 404)
        is_problem(await other.post(f"/api/messages/{pk}/continue", {}), 404)
    assert await Message.objects.acount() == 2


async def test_a_chat_offers_no_tools_so_no_call_of_it_waits_for_a_result(
    api: Api, chat: Chat, store: MemoryStore
) -> None:
    """DECISIONS 65: who has tools asks by `POST /api/responses` and sends their outputs there."""
    url = f"/api/chats/{chat.pk}/messages"
    output = {"role": "tool", "call_id": "c", "output": "4"}
    refused: list[dict[str, Any]] = [{"tools": []}, {"input": [output]}, output]
    for more in refused:
        is_problem(await api.post(url, {"text": "one"} | more), 422)
    assert not await Message.objects.filter(chat=chat).aexists()
    is_problem(await api.post("/api/chats", {"tools": []}), 422)
    await say(api, chat, store, "eins")
    request = GenerationRequest.from_json((await Response.objects.aget()).request)
    assert request.tools == []
    asked = {"model": "fast", "input": [{"role": "user", "content": "one"}, output]}
    assert (await api.post("/api/responses", asked)).status_code == 202
