"""A POST that wants events gets those of its own answer, in the same reply (design §4)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from chatapp.models import Response
from tests.chatapp.asgi_client import communicate
from tests.chatapp.conftest import is_problem, scribe_of

if TYPE_CHECKING:
    from relay import MemoryStore
    from tests.chatapp.asgi_client import Site

EVENTS = "text/event-stream"


def body(**more: Any) -> bytes:
    return json.dumps({"model": "fast", "input": "hello", **more}).encode()


async def test_a_post_that_wants_events_streams_them(
    site: Site, store: MemoryStore, bearer: str
) -> None:
    async with site.request(
        "POST", "/api/responses", body(), authorization=bearer, accept=EVENTS
    ) as stream:
        (created,) = await stream.until("created")
        rid = created.data["response_id"]
        assert stream.status_code == 200
        assert stream.headers["Location"] == f"/api/responses/{rid}"
        assert stream.headers["Content-Type"].startswith(EVENTS)
        scribe = await scribe_of(store, rid)
        await scribe.say("Hi")
        await scribe.end()
        await stream.rest()
        assert [event.type for event in stream.events][-2:] == ["text.delta", "ended"]
    row = await Response.objects.aget(pk=rid)
    assert (row.cancel_after_s, row.leave_after_s) == (300.0, 20.0)


async def test_a_post_without_accept_gets_json_and_goes_on_alone(site: Site, bearer: str) -> None:
    reply = await site.whole("POST", "/api/responses", body(), authorization=bearer)
    assert reply.status_code == 202
    row = await Response.objects.aget(pk=reply.json()["id"])
    assert (row.cancel_after_s, row.leave_after_s) == (None, None)


async def test_a_post_that_is_refused_is_answered_as_django_does(site: Site, bearer: str) -> None:
    reply = await site.whole(
        "POST", "/api/responses", body(model="none"), authorization=bearer, accept=EVENTS
    )
    assert is_problem(reply, 422)["models"] == ["fast", "other"]
    reply = await site.whole("POST", "/api/responses", body(), accept=EVENTS)
    is_problem(reply, 401)
    assert await Response.objects.acount() == 0


async def test_a_bad_viewer_is_told_before_anything_is_written(site: Site, bearer: str) -> None:
    reply = await site.whole(
        "POST", "/api/responses?viewer=a/b", body(), authorization=bearer, accept=EVENTS
    )
    is_problem(reply, 400)
    assert await Response.objects.acount() == 0


async def test_a_client_gone_in_mid_post_still_gets_its_answer(
    site: Site, store: MemoryStore, bearer: str
) -> None:
    headers = {"authorization": bearer, "accept": EVENTS}
    communicator = communicate(site.application, "POST", "/api/responses", headers)
    await communicator.send_input({"type": "http.request", "body": body(), "more_body": False})
    await communicator.send_input({"type": "http.disconnect"})
    await communicator.wait(5)
    row = await Response.objects.aget()
    assert await store.tails([row.pk]) != [None]


async def test_a_client_gone_before_its_question_came_is_forgotten(site: Site, bearer: str) -> None:
    headers = {"authorization": bearer, "accept": EVENTS}
    communicator = communicate(site.application, "POST", "/api/responses", headers)
    await communicator.send_input({"type": "http.request", "body": b"{", "more_body": True})
    await communicator.send_input({"type": "http.disconnect"})
    await communicator.wait(5)
    assert communicator.output_queue.empty()
    assert await Response.objects.acount() == 0


async def test_a_body_beyond_every_limit_is_refused_while_it_comes(
    site: Site, bearer: str, settings: Any
) -> None:
    too_much = b"x" * (settings.DATA_UPLOAD_MAX_MEMORY_SIZE + 1)
    reply = await site.whole("POST", "/api/responses", too_much, authorization=bearer)
    is_problem(reply, 413)
