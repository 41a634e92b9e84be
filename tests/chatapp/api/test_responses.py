"""`/api/responses`: what is accepted, what is refused, and that a refusal writes nothing."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from typing import Any

import pytest
from django.test import AsyncClient

from chatapp.auth import make_key
from chatapp.models import AuditEvent, Response, User
from relay import GenerationRequest, MemoryStore, StoreUnavailable
from tests.chatapp.conftest import Api, Clock, is_problem, scribe_of


async def test_a_question_is_accepted_and_its_job_waits(api: Api, store: MemoryStore) -> None:
    reply = await api.post("/api/responses", {"model": "fast", "input": "hello"})
    assert reply.status_code == 202
    body = reply.json()
    rid = body["id"]
    assert body == {
        "id": rid,
        "status": "queued",
        "events_url": f"/api/responses/{rid}/events",
        "cancel_url": f"/api/responses/{rid}/cancel",
    }
    assert reply.headers["Location"] == f"/api/responses/{rid}"
    (job,) = await store.take(0, "w", 10, 0)
    assert job.response_id == rid


async def test_the_request_keeps_everything_that_was_asked(api: Api) -> None:
    asked = {
        "model": "fast",
        "input": [
            {"role": "system", "content": "be brief"},
            {"role": "user", "content": [{"type": "text", "text": "look"}]},
            {"role": "assistant", "tool_calls": [{"id": "c1"}]},
            {"role": "tool", "call_id": "c1", "output": "42"},
        ],
        "instructions": "in French",
        "max_output_tokens": 7,
        "temperature": 0.5,
        "stop": "END",
        "tools": [{"name": "t"}],
        "metadata": {"mine": [1, "\0"]},
    }
    reply = await api.post("/api/responses", asked)
    row = await Response.objects.aget(pk=reply.json()["id"])
    request = GenerationRequest.from_json(row.request)
    assert request.messages == asked["input"]
    assert (request.response_id, request.model) == (row.pk, "fast")
    assert (request.instructions, request.max_output_tokens) == ("in French", 7)
    assert (request.temperature, request.stop) == (0.5, ["END"])
    assert request.tools == asked["tools"]
    assert json.loads(row.metadata) == asked["metadata"]


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (None, (None, None)),
        ("continue", (None, None)),
        ("cancel", (0.0, 0.0)),
        ({"cancel_after_s": 9, "leave_after_s": 1}, (9.0, 1.0)),
        ({"cancel_after_s": 9}, (9.0, 20.0)),
        ({}, (300.0, 20.0)),
    ],
)
async def test_on_disconnect_is_kept_with_its_defaults(
    api: Api, wanted: Any, expected: tuple[float | None, float | None]
) -> None:
    rid = await api.ask(**({"on_disconnect": wanted} if wanted is not None else {}))
    row = await Response.objects.aget(pk=rid)
    assert (row.cancel_after_s, row.leave_after_s) == expected


BAD: list[tuple[str, Any, int, str]] = [
    ("unknown model", {"model": "gpt-9", "input": "hi"}, 422, "fast, other"),
    ("no model", {"input": "hi"}, 422, "model"),
    ("empty text", {"model": "fast", "input": ""}, 422, "empty"),
    ("blank text", {"model": "fast", "input": " \n\t"}, 422, "empty"),
    ("no messages", {"model": "fast", "input": []}, 422, "empty"),
    (
        "empty message",
        {"model": "fast", "input": [{"role": "user", "content": ""}]},
        422,
        "empty",
    ),
    ("no input", {"model": "fast"}, 422, "input"),
    ("input of another type", {"model": "fast", "input": 3}, 422, "input"),
    ("unknown role", {"model": "fast", "input": [{"role": "bot", "content": "x"}]}, 422, "role"),
    ("tool without id", {"model": "fast", "input": [{"role": "tool"}]}, 422, "call_id"),
    ("message without content", {"model": "fast", "input": [{"role": "user"}]}, 422, "content"),
    ("unknown member", {"model": "fast", "input": "hi", "max_tokens": 3}, 422, "max_tokens"),
    ("no output wanted", {"model": "fast", "input": "x", "max_output_tokens": 0}, 422, "greater"),
    ("too hot", {"model": "fast", "input": "x", "temperature": 3}, 422, "temperature"),
    ("unknown policy", {"model": "fast", "input": "x", "on_disconnect": "wait"}, 422, "on_disc"),
    (
        "negative patience",
        {"model": "fast", "input": "x", "on_disconnect": {"cancel_after_s": -1}},
        422,
        "cancel_after_s",
    ),
    ("nested without end", b'{"model": "fast", "input": "x", "metadata": {"a": '
     + b"[" * 100_000 + b"]" * 100_000 + b"}}", 400, "parse"),
    ("malformed JSON", b'{"model": "fast", ', 400, "parse"),
    ("not JSON at all", b"\xff\xfe", 400, "parse"),
    ("a list", b"[1, 2]", 422, ""),
    ("half a character", b'{"model": "fast", "input": "\\ud800"}', 422, ""),
    ("half a character deep inside", b'{"model": "fast", "input": [{"role": "user", "content":'
     b' [{"type": "text", "text": "\\ud800"}]}]}', 422, ""),
]  # fmt: skip


@pytest.mark.parametrize(("name", "body", "status", "says"), BAD, ids=[case[0] for case in BAD])
async def test_bad_input_is_a_clear_problem_and_writes_nothing(
    api: Api, store: MemoryStore, name: str, body: Any, status: int, says: str
) -> None:
    problem = is_problem(await api.post("/api/responses", body), status)
    assert says in json.dumps(problem)
    assert await Response.objects.acount() == 0
    assert await AuditEvent.objects.acount() == 0
    assert await store.take(0, "w", 10, 0) == []


@pytest.fixture
def small_inputs(settings: Any) -> None:
    settings.RELAY = dataclasses.replace(settings.RELAY, max_input_bytes=10)


async def test_an_oversized_input_is_413_and_states_the_limit(api: Api, small_inputs: None) -> None:
    await api.ask("äöüäö")
    reply = await api.post("/api/responses", {"model": "fast", "input": "äöüäöx"})
    problem = is_problem(reply, 413)
    assert problem["limit_bytes"] == 10
    assert "11 bytes" in problem["detail"]
    assert "10 bytes" in problem["detail"]
    assert await Response.objects.acount() == 1


async def test_somebody_elses_response_is_not_there(api: Api, stranger: User) -> None:
    rid = await api.ask()
    other = Api(await asyncio.to_thread(make_key, stranger))
    is_problem(await other.get(f"/api/responses/{rid}"), 404)
    is_problem(await other.post(f"/api/responses/{rid}/cancel"), 404)
    is_problem(await other.post(f"/api/responses/{rid}/leave"), 404)
    is_problem(await api.get("/api/responses/resp_0_0"), 404)
    assert (await Response.objects.aget(pk=rid)).stop_requested_at is None


@pytest.mark.parametrize(
    "authorization",
    ["", "Bearer", "Bearer ub_12345678_wrong", "Basic YTpi", "Bearer \N{LATIN SMALL LETTER E}"],
)
async def test_a_wrong_key_is_401(store: MemoryStore, user: User, authorization: str) -> None:
    headers = {"Authorization": authorization} if authorization else {}
    reply = await Api("").post("/api/responses", {"model": "fast", "input": "hi"}, **headers)
    is_problem(reply, 401)
    assert reply.headers["WWW-Authenticate"] == "Bearer"


@pytest.fixture
def browser(user: User, store: MemoryStore) -> AsyncClient:
    client = AsyncClient(enforce_csrf_checks=True)
    client.force_login(user)
    return client


async def ask_from_page(browser: AsyncClient, **headers: str) -> Any:
    return await browser.post(
        "/api/responses",
        json.dumps({"model": "fast", "input": "hi"}),
        content_type="application/json",
        headers=headers,
    )


async def test_a_session_without_its_csrf_token_is_403(browser: AsyncClient) -> None:
    is_problem(await ask_from_page(browser), 403)
    is_problem(await ask_from_page(browser, **{"X-CSRFToken": "x" * 32}), 403)
    assert await Response.objects.acount() == 0


async def test_a_session_with_its_csrf_token_may_ask(browser: AsyncClient) -> None:
    browser.cookies["csrftoken"] = "t" * 32
    assert (await ask_from_page(browser, **{"X-CSRFToken": "t" * 32})).status_code == 202


async def test_a_beacon_may_prove_itself_in_its_form(
    browser: AsyncClient, api: Api, store: MemoryStore
) -> None:
    rid = await api.ask()
    browser.cookies["csrftoken"] = "t" * 32
    url = f"/api/responses/{rid}/leave"
    form = {"csrfmiddlewaretoken": "t" * 32, "viewer": "abc"}
    assert (await browser.post(url, form)).status_code == 204
    assert (await browser.post(url, {"viewer": "abc"})).status_code == 403


async def test_a_process_that_does_not_know_the_stores_time_accepts_nothing(
    api: Api, store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PROTOCOL 9.4: what it noted as the time of a question would be its own."""

    async def away() -> None:
        raise StoreUnavailable("the store does not answer")

    monkeypatch.setattr(store, "know_time", away)
    is_problem(await api.post("/api/responses", {"model": "fast", "input": "hi"}), 503)
    assert await Response.objects.acount() == 0


async def test_chaos_seed_41_r80_the_time_of_a_question_is_taken_when_the_stores_is_known(
    api: Api, store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PROTOCOL 9.4. A process with a wrong clock had a question on its way when Redis came back."""
    right_s = store.now_s()
    ahead_s = [3600.0]

    async def heard() -> None:
        ahead_s[0] = 0.0

    monkeypatch.setattr(store, "now_s", lambda: right_s + ahead_s[0])
    monkeypatch.setattr(store, "know_time", heard)
    rid = await api.ask()
    row = await Response.objects.aget(pk=rid)
    assert row.created_at.timestamp() == pytest.approx(right_s)


async def test_redis_away_is_503_and_nothing_is_written(api: Api, store: MemoryStore) -> None:
    store.faults.unreachable = True
    reply = await api.post("/api/responses", {"model": "fast", "input": "hi"})
    is_problem(reply, 503)
    assert reply.headers["Retry-After"] == "5"
    assert await Response.objects.acount() == 0


async def test_redis_lost_after_the_commit_is_still_202(api: Api, store: MemoryStore) -> None:
    store.faults.fail("create")
    rid = await api.ask()
    assert await store.tails([rid]) == [None]
    snapshot = (await api.get(f"/api/responses/{rid}")).json()
    assert (snapshot["id"], snapshot["status"], snapshot["model"]) == (rid, "queued", "fast")


async def test_a_snapshot_follows_the_log(api: Api, store: MemoryStore) -> None:
    rid = await api.ask()
    scribe = await scribe_of(store, rid)
    await scribe.say("Hello", " world")
    snapshot = (await api.get(f"/api/responses/{rid}")).json()
    assert (snapshot["status"], snapshot["text"], snapshot["seq"]) == (
        "in_progress",
        "Hello world",
        4,
    )
    assert scribe.lease is not None
    assert snapshot["epoch"] == scribe.lease.epoch


async def test_a_snapshot_with_a_viewer_counts_as_presence(
    api: Api, store: MemoryStore, clock: Clock
) -> None:
    rid = await api.ask(on_disconnect={"cancel_after_s": 0, "leave_after_s": 0})
    clock.advance(31)  # whoever asked is waited for two heartbeats long
    assert await store.abandoned([rid]) == [True]
    await api.get(f"/api/responses/{rid}?viewer=tab1")
    assert await store.abandoned([rid]) == [False]
    assert (await api.post(f"/api/responses/{rid}/leave", {"viewer": "tab1"})).status_code == 204
    is_problem(await api.get(f"/api/responses/{rid}?viewer=a/b"), 400)


@pytest.mark.parametrize("body", [None, {}, {"viewer": None}])
async def test_leaving_without_a_viewer_is_for_all_of_this_login(
    api: Api, store: MemoryStore, clock: Clock, body: Any
) -> None:
    rid = await api.ask(on_disconnect={"cancel_after_s": 0, "leave_after_s": 0})
    for tab in ("tab1", "tab2"):
        await api.get(f"/api/responses/{rid}?viewer={tab}")
    await store.attend(rid, "somebody/else")
    assert (await api.post(f"/api/responses/{rid}/leave", body)).status_code == 204
    assert await store.abandoned([rid]) == [False]
    await store.leave(rid, "somebody/else")
    clock.advance(1)
    assert await store.abandoned([rid]) == [True]


@pytest.mark.parametrize("body", [b"{", {"viewer": 3}, {"viewer": "a b"}])
async def test_leaving_with_nonsense_is_400(api: Api, body: Any) -> None:
    rid = await api.ask()
    is_problem(await api.post(f"/api/responses/{rid}/leave", body), 400)


async def test_stopping_a_queued_response_ends_it_at_once(api: Api, store: MemoryStore) -> None:
    rid = await api.ask()
    for _ in range(2):  # the second time changes nothing
        reply = await api.post(f"/api/responses/{rid}/cancel")
        assert reply.status_code == 200
        assert (reply.json()["status"], reply.json()["reason"]) == ("cancelled", "user")
        assert "cancelling" not in reply.json()
    row = await Response.objects.aget(pk=rid)
    assert (row.status, row.reason, row.stop_by) == ("cancelled", "user", "ann")


async def test_a_stop_that_takes_longer_says_that_it_is_under_way(
    api: Api, store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("chatapp.services.stopping.HONEST_END_S", 0.01)
    rid = await api.ask()
    scribe = await scribe_of(store, rid)
    await scribe.say("so far")
    reply = await api.post(f"/api/responses/{rid}/cancel")
    assert reply.status_code == 202
    assert (reply.json()["status"], reply.json()["cancelling"]) == ("in_progress", True)
    assert reply.json()["text"] == "so far"


async def test_a_stop_whose_flag_cannot_be_set_is_503_and_is_remembered(
    api: Api, store: MemoryStore
) -> None:
    rid = await api.ask()
    store.faults.fail("cancel")
    reply = await api.post(f"/api/responses/{rid}/cancel")
    is_problem(reply, 503)
    assert (await Response.objects.aget(pk=rid)).stop_requested_at is not None


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("get", "/api/nothing", 404),
        ("get", "/api/chats/not-a-uuid", 404),
        ("delete", "/api/responses", 405),
        ("put", "/api/responses", 405),
        ("get", "/api/responses/x/cancel", 405),
    ],
)
async def test_what_django_refuses_is_a_problem_too(
    api: Api, method: str, path: str, status: int
) -> None:
    reply = await getattr(api, method)(path)
    is_problem(reply, status)
    if status == 405:
        assert reply.headers["Allow"]


async def test_our_own_mistake_is_a_problem_without_details(
    api: Api, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def broken(**kwargs: Any) -> None:
        raise ZeroDivisionError("secret")

    monkeypatch.setattr("chatapp.services.create_response", broken)
    reply = await api.post("/api/responses", {"model": "fast", "input": "hi"})
    assert "secret" not in json.dumps(is_problem(reply, 500))
    assert "ZeroDivisionError" in caplog.text


@pytest.mark.parametrize(
    "more",
    [
        {"on_disconnect": {"cancel_after_s": 1e308}},
        {"on_disconnect": {"leave_after_s": 1e12}},
        {"metadata": {"a\ud800": "x"}},
        {"stop": ["\ud800"]},
        {"tools": [{"type": "function", "function": {"name": "\ud800"}}]},
    ],
    ids=["endless-patience", "endless-leave", "metadata", "stop", "tools"],
)
async def test_what_could_not_be_stored_is_refused_before_anything_is(
    api: Api, more: dict[str, Any]
) -> None:
    """The first left a row that nothing could end, the others a traceback."""
    reply = await api.post("/api/responses", {"model": "fast", "input": "hi", **more})
    is_problem(reply, 422)
    assert not await Response.objects.aexists()


@pytest.mark.parametrize("body", [b"[" * 100_000, b'{"a":' * 100_000, b"\xff"], ids=len)
async def test_a_leave_that_cannot_be_read_is_a_problem(api: Api, body: bytes) -> None:
    rid = await api.ask()
    is_problem(await api.post(f"/api/responses/{rid}/leave", body), 400)
