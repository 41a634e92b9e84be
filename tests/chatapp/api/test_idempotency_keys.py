"""PROTOCOL 11.2 at the API: one key and one body are one response, however often they are sent."""

from __future__ import annotations

import asyncio
import dataclasses
from typing import TYPE_CHECKING, Any

import pytest

from chatapp.models import Response
from tests.chatapp.conftest import Api, is_problem

if TYPE_CHECKING:
    from relay import MemoryStore


async def test_the_same_key_and_body_name_the_same_response(api: Api, store: MemoryStore) -> None:
    body = {"model": "fast", "input": "hi"}
    first = await api.post("/api/responses", body, Idempotency_Key="k1")
    again = await api.post("/api/responses", body, Idempotency_Key="k1")
    other = await api.post("/api/responses", body, Idempotency_Key="k2")
    assert first.json()["id"] == again.json()["id"] != other.json()["id"]
    assert again.status_code == 202
    assert len(await store.take(0, "w", 10, 0)) == 2


async def test_the_same_key_and_body_may_come_over_another_door(api: Api) -> None:
    body = {"model": "fast", "input": "hi"}
    first = await api.post("/api/responses", body, Idempotency_Key="k1", Accept="text/event-stream")
    again = await api.post("/api/responses", body, Idempotency_Key="k1")
    assert (again.status_code, again.json()["id"]) == (202, first.json()["id"])


async def test_the_same_key_with_another_body_is_422(api: Api) -> None:
    await api.post("/api/responses", {"model": "fast", "input": "hi"}, Idempotency_Key="k1")
    reply = await api.post("/api/responses", {"model": "fast", "input": "ho"}, Idempotency_Key="k1")
    is_problem(reply, 422)
    assert await Response.objects.acount() == 1


@pytest.mark.parametrize("name", ["", "a b", "ä", "x" * 256])
async def test_a_key_that_nobody_makes_on_purpose_is_400(api: Api, name: str) -> None:
    reply = await api.post("/api/responses", {"model": "fast", "input": "hi"}, Idempotency_Key=name)
    is_problem(reply, 400)


async def test_parallel_posts_with_one_key_make_one_response(api: Api, store: MemoryStore) -> None:
    body = {"model": "fast", "input": "hi"}
    replies = await asyncio.gather(
        *[api.post("/api/responses", body, Idempotency_Key="k1") for _ in range(5)]
    )
    assert {reply.status_code for reply in replies} == {202}
    assert len({reply.json()["id"] for reply in replies}) == 1
    assert len(await store.take(0, "w", 10, 0)) == 1


async def test_too_many_running_answers_are_429_and_a_repeat_is_not_one_more(
    api: Api, settings: Any
) -> None:
    settings.RELAY = dataclasses.replace(settings.RELAY, max_generations_per_user=1)
    body = {"model": "fast", "input": "hi"}
    await api.post("/api/responses", body, Idempotency_Key="k1")
    reply = await api.post("/api/responses", body)
    assert is_problem(reply, 429)["limit"] == 1
    assert reply.headers["Retry-After"]
    assert (await api.post("/api/responses", body, Idempotency_Key="k1")).status_code == 202


async def test_a_repeat_is_answered_while_redis_is_away(api: Api, store: MemoryStore) -> None:
    body = {"model": "fast", "input": "hi"}
    first = await api.post("/api/responses", body, Idempotency_Key="k1")
    store.faults.unreachable = True
    again = await api.post("/api/responses", body, Idempotency_Key="k1")
    assert (again.status_code, again.json()["id"]) == (202, first.json()["id"])
