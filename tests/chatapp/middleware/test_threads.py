"""Requests share a few long-lived threads; streams hold none."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

import pytest
from asgiref.sync import sync_to_async
from django.db import connection
from django.http import HttpResponse
from django.urls import path

from chatapp.middleware.threads import Body, DatabaseThreads, SiteHandler
from tests.chatapp.asgi_client import Site, communicate

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from django.http import HttpRequest

    from chatapp.middleware.asgi_types import Message


def who() -> tuple[str, int]:
    """The thread that this runs on, and its database connection."""
    connection.ensure_connection()
    return threading.current_thread().name, id(connection.connection)


async def view(request: HttpRequest) -> HttpResponse:
    name, handle = await sync_to_async(who)()
    return HttpResponse(f"{name} {handle}")


async def echo(request: HttpRequest) -> HttpResponse:
    return HttpResponse(request.body)


async def crash(request: HttpRequest) -> HttpResponse:
    raise ZeroDivisionError


async def endless(request: HttpRequest) -> HttpResponse:
    begun.set()
    await asyncio.Event().wait()
    return HttpResponse()


begun = asyncio.Event()


urlpatterns = [
    path("who", view),
    path("echo", echo),
    path("crash", crash),
    path("endless", endless),
]


@pytest.fixture
async def threads(transactional_db: None) -> AsyncIterator[DatabaseThreads]:
    made = DatabaseThreads(size=2)
    yield made
    await made.aclose()


@pytest.fixture
def site(threads: DatabaseThreads, settings: Any) -> Site:
    settings.ROOT_URLCONF = __name__
    return Site(SiteHandler(threads, max_body_bytes=100))


async def test_connections_outlive_requests(site: Site) -> None:
    seen = {(await site.whole("GET", "/who")).content for _ in range(5)}
    assert len(seen) == 1
    assert seen.pop().startswith(b"database-0")


async def test_requests_at_once_use_other_threads(threads: DatabaseThreads) -> None:
    async with threads.lend(), threads.lend():
        assert threads.busy == [1, 1]
        async with threads.lend():
            assert sorted(threads.busy) == [1, 2]
            assert repr(threads) == f"<DatabaseThreads busy={threads.busy}>"
    assert threads.busy == [0, 0]


async def test_a_function_outside_requests_gets_a_thread(threads: DatabaseThreads) -> None:
    assert (await threads.run(who))[0].startswith("database-")


async def test_a_failed_connection_is_not_used_again(
    threads: DatabaseThreads, transactional_db: None
) -> None:
    def fail() -> None:
        connection.ensure_connection()
        connection.connection.close()
        connection.errors_occurred = True
        raise ValueError("lost")

    first = await threads.run(who)
    with pytest.raises(ValueError, match="lost"):
        await threads.run(fail)
    second = await threads.run(who)
    assert first[0] == second[0]


async def test_a_request_costs_no_task_and_no_hop_of_its_own(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    from asgiref.sync import SyncToAsync

    async def refused(*args: Any, **kwargs: Any) -> None:
        raise AssertionError("a thread hop")

    await site.whole("GET", "/echo")
    monkeypatch.setattr(SyncToAsync, "__call__", refused)
    assert (await site.whole("GET", "/echo")).status_code == 200


async def test_a_body_up_to_the_limit_is_taken(site: Site) -> None:
    assert (await site.whole("POST", "/echo", b"x" * 100)).status_code in (200, 403)
    reply = await site.whole("POST", "/echo", b"x" * 101)
    assert reply.status_code == 413
    assert reply.json()["detail"] == "The request is larger than 100 bytes."


async def test_a_body_is_counted_over_all_its_pieces() -> None:
    pieces = iter([b"x" * 60, b"x" * 60, b"x" * 60])

    async def receive() -> Message:
        return {"type": "http.request", "body": next(pieces), "more_body": True}

    body = Body(receive, 100)
    assert (await body.receive())["type"] == "http.request"
    assert (await body.receive())["type"] == "http.disconnect"
    assert body.refusal == (413, "The request is larger than 100 bytes.")


async def test_a_client_that_leaves_before_its_body_came_is_let_go(
    threads: DatabaseThreads,
) -> None:
    handler = SiteHandler(threads, max_body_bytes=100)
    communicator = communicate(handler, "POST", "/echo", {})
    await communicator.send_input({"type": "http.disconnect"})
    await communicator.wait(5)
    assert communicator.output_queue.empty()
    assert threads.busy == [0, 0]


async def test_a_view_that_crashes_gives_its_thread_back(
    site: Site, threads: DatabaseThreads
) -> None:
    assert (await site.whole("GET", "/crash")).status_code == 500
    assert threads.busy == [0, 0]


async def test_a_request_that_the_server_cuts_short_is_answered_as_one_that_may_be_repeated(
    threads: DatabaseThreads, settings: Any
) -> None:
    """Servers cancel what outlasts their grace at shutdown; uvicorn would answer 500."""
    settings.ROOT_URLCONF = __name__
    handler = SiteHandler(threads, max_body_bytes=100)
    scope = communicate(handler, "GET", "/endless", {}).scope
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        sent.append(message)

    begun.clear()
    task = asyncio.create_task(handler(scope, receive, send))
    await asyncio.wait_for(begun.wait(), 5)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert sent[0]["status"] == 503
    assert (b"retry-after", b"1") in sent[0]["headers"]
    assert threads.busy == [0, 0]


async def test_a_cancelled_request_gives_its_thread_back(threads: DatabaseThreads) -> None:
    async def hold() -> None:
        async with threads.lend():
            await asyncio.Event().wait()

    task = asyncio.create_task(hold())
    await asyncio.sleep(0)
    assert sum(threads.busy) == 1
    task.cancel()
    await asyncio.wait([task])
    assert threads.busy == [0, 0]
