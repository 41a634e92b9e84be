"""At the door: addresses behind proxies, and how much may be open at a time."""

from __future__ import annotations

import asyncio
import gzip
import json
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

import pytest
from asgiref.testing import ApplicationCommunicator

from chatapp.auth import make_key
from chatapp.middleware.admission import (
    MAX_PARAMETERS,
    Admission,
    House,
    Limits,
    Places,
    TooMany,
    Visit,
    counted_as,
)
from tests.chatapp.asgi_client import Site, communicate
from tests.chatapp.conftest import Api, is_problem

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from chatapp.middleware.asgi_types import Receive, Scope, Send
    from chatapp.models import User
    from relay import MemoryStore

EVENTS = "text/event-stream"


async def show(scope: Scope, receive: Receive, send: Send) -> None:
    """Answers with the address and the scheme that the application sees."""
    body = json.dumps([counted_as(scope), scope["scheme"]]).encode()
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": body, "more_body": False})


async def seen(proxies: list[str], **headers: str) -> list[str]:
    site = Site(Admission(show, Limits(), proxies))
    body: list[str] = (await site.whole("GET", "/", **headers)).json()
    return body


async def test_a_proxy_that_is_not_named_is_not_believed() -> None:
    told = {"x-forwarded-for": "203.0.113.9", "x-forwarded-proto": "https"}
    assert await seen([], **told) == ["127.0.0.1", "http"]
    assert await seen(["10.0.0.0/8"], **told) == ["127.0.0.1", "http"]
    assert await seen(["127.0.0.1"], **told) == ["203.0.113.9", "https"]


async def test_what_a_client_says_before_its_proxy_does_not_count() -> None:
    """The last address that no trusted proxy has is the client's; all before is its own word."""
    told = "1.1.1.1, 203.0.113.9, 10.0.0.7"
    assert await seen(["127.0.0.1"], x_forwarded_for=told) == ["10.0.0.7", "http"]
    proxies = ["127.0.0.1", "10.0.0.0/8"]
    assert await seen(proxies, x_forwarded_for=told) == ["203.0.113.9", "http"]


@pytest.mark.parametrize(
    ("address", "counted"),
    [
        ("203.0.113.9", "203.0.113.9"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("::ffff:203.0.113.9", "203.0.113.9"),
        ("unknown", "unknown"),
        ("", None),
    ],
)
def test_an_ipv6_household_counts_as_one(address: str, counted: str | None) -> None:
    assert counted_as({"client": (address, 1)}) == counted
    assert counted_as({"client": None}) is None


def test_places_are_counted_by_name_and_forgotten_when_free() -> None:
    places = Places("requests_of_person", 2, "at most {limit}")
    for name in ("a", "a", "b", None):
        places.take(name)
    with pytest.raises(TooMany, match="at most 2"):
        places.take("a")
    assert repr(places) == "<Places 3 taken, 2 for each>"
    for name in ("a", "a", "b", None):
        places.leave(name)
    assert not places._taken
    unlimited = Places("requests_of_person", 0, "")
    unlimited.take("a")
    unlimited.leave("a")


def test_a_stream_takes_other_places_than_a_request_and_none_when_it_is_refused() -> None:
    limits = Limits(requests_per_address=1, requests_per_user=1, streams_per_user=1)
    house = House(limits)
    first, second = Visit(house, "1.2.3.4"), Visit(house, "1.2.3.4")
    first.begin()
    first.known_as("ann")
    first.becomes_stream("ann")
    second.begin()
    second.known_as("ann")
    with pytest.raises(TooMany, match="event streams of one person"):
        second.becomes_stream("ann")
    with pytest.raises(TooMany, match="requests of one address"):
        Visit(house, "1.2.3.4").begin()
    second.end()
    first.end()
    for places in vars(house).values():
        assert not places._taken


@pytest.mark.parametrize("coding", ["gzip", "br", "deflate", "zstd", "identity, gzip"])
async def test_a_compressed_body_is_refused_unread(coding: str, site: Site) -> None:
    bomb = gzip.compress(bytes(10_000_000))
    reply = await site.whole("POST", "/api/responses", bomb, content_encoding=coding)
    assert "Content-Encoding" in is_problem(reply, 415)["detail"]
    assert reply.headers["Accept-Encoding"] == "identity"


MANY = "&".join(f"a{n}=1" for n in range(MAX_PARAMETERS + 1))


@pytest.mark.parametrize("path", ["/", "/api/chats", "/admin/", "/api/responses/x/events"])
async def test_an_address_with_thousands_of_parameters_is_refused(path: str, site: Site) -> None:
    is_problem(await site.whole("GET", f"{path}?{MANY}"), 400)


async def test_what_django_refuses_while_it_reads_is_no_mistake_of_the_server(api: Api) -> None:
    """Behind a server whose door does not look at it."""
    is_problem(await api.get(f"/api/chats?{MANY}"), 400)


async def test_a_websocket_is_refused_before_it_opens(site: Site) -> None:
    """Nothing here speaks it, and Daphne would answer 500 to an application that says nothing."""
    made: Any = ApplicationCommunicator
    socket = made(site.application, {"type": "websocket", "path": "/ws", "headers": []})
    await socket.send_input({"type": "websocket.connect"})
    assert (await socket.receive_output(5))["type"] == "websocket.close"
    await socket.wait(5)


class Held:
    """An application that answers when it is told to."""

    def __init__(self) -> None:
        self.go = asyncio.Event()
        self.inside = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.inside += 1
        await self.go.wait()
        await show(scope, receive, send)


async def test_an_address_has_so_many_requests_under_way() -> None:
    held = Held()
    door = Admission(held, Limits(requests_per_address=2), [])
    waiting = [communicate(door, "GET", "/", {}) for _ in range(2)]
    for each in waiting:
        await each.send_input({"type": "http.request", "body": b"", "more_body": False})
    while held.inside < 2:
        await asyncio.sleep(0)
    reply = await Site(door).whole("GET", "/")
    assert "2 requests of one address" in is_problem(reply, 429)["detail"]
    assert reply.headers["Retry-After"] == "5"
    held.go.set()
    for each in waiting:
        assert (await each.receive_output(5))["status"] == 200
        await each.wait(5)
    assert (await Site(door).whole("GET", "/")).status_code == 200


async def test_a_place_is_free_again_when_the_application_fails() -> None:
    async def fails(*_: Any) -> None:
        raise OSError("broken")

    door = Admission(fails, Limits(requests_per_address=1), [])
    a_scope = {"type": "http", "path": "/", "headers": []}
    for _ in range(3):
        with pytest.raises(OSError, match="broken"):
            await door({**a_scope, "client": ("1.2.3.4", 5)}, None, None)  # type: ignore[arg-type]


@pytest.fixture
async def narrow(store: MemoryStore, settings: Any) -> AsyncIterator[Site]:
    """A site in which little may be open."""
    from chatapp.asgi import Application

    settings.DOOR_LIMITS = Limits(
        requests_per_address=50, requests_per_user=1, streams_per_address=3, streams_per_user=2
    )
    application = Application()
    yield Site(application)
    await application.aclose()


async def test_streams_are_limited_by_person_and_by_address(
    api: Api, narrow: Site, key: str, stranger: User
) -> None:
    mine, theirs = f"Bearer {key}", f"Bearer {await asyncio.to_thread(make_key, stranger)}"
    rid = await api.ask()
    other = await Api(theirs.removeprefix("Bearer ")).ask()

    def follow(who: str, response_id: str) -> Any:
        return narrow.request("GET", f"/api/responses/{response_id}/events", authorization=who)

    async with AsyncExitStack() as open_streams:
        for _ in range(2):
            assert (await open_streams.enter_async_context(follow(mine, rid))).status_code == 200
        async with follow(mine, rid) as third:
            await third.rest()
            assert "2 event streams of one person" in is_problem(third, 429)["detail"]
        # Streams are not requests: this person may still ask, and stop.
        reply = await narrow.whole("GET", f"/api/responses/{rid}", authorization=mine)
        assert reply.status_code == 200
        assert (await open_streams.enter_async_context(follow(theirs, other))).status_code == 200
        async with follow(theirs, other) as fourth:
            await fourth.rest()
            assert "3 event streams may be open from one" in is_problem(fourth, 429)["detail"]
    async with follow(mine, rid) as again:
        assert again.status_code == 200


async def test_a_post_that_finds_no_place_for_its_stream_is_accepted(
    api: Api, narrow: Site, key: str
) -> None:
    """The answer comes all the same; its events can be asked for later."""
    mine = f"Bearer {key}"
    rid = await api.ask()
    body = json.dumps({"model": "fast", "input": "hello"}).encode()
    url = f"/api/responses/{rid}/events"
    async with (
        narrow.request("GET", url, authorization=mine) as one,
        narrow.request("GET", url, authorization=mine) as two,
    ):
        assert (one.status_code, two.status_code) == (200, 200)
        told = {"authorization": mine, "accept": EVENTS}
        reply = await narrow.whole("POST", "/api/responses", body, **told)
        assert reply.status_code == 202
        assert reply.json()["status"] == "queued"


async def test_a_person_has_so_many_requests_under_way(
    api: Api, narrow: Site, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from chatapp import services

    mine, rid = f"Bearer {key}", await api.ask()
    go, inside = asyncio.Event(), asyncio.Event()
    snapshot = services.snapshot

    async def slow(response: Any) -> Any:
        inside.set()
        await go.wait()
        return await snapshot(response)

    monkeypatch.setattr(services, "snapshot", slow)
    url = f"/api/responses/{rid}"
    first = asyncio.create_task(narrow.whole("GET", url, authorization=mine))
    await asyncio.wait_for(inside.wait(), 5)
    second = await narrow.whole("GET", url, authorization=mine)
    assert "1 requests of one person" in is_problem(second, 429)["detail"]
    assert second.headers["Retry-After"] == "5"
    go.set()
    assert (await first).status_code == 200
    assert (await narrow.whole("GET", url, authorization=mine)).status_code == 200


async def test_a_body_that_does_not_come_is_not_waited_for(
    transactional_db: None, site: Site, settings: Any
) -> None:
    settings.BODY_TIMEOUT_S = 0.05
    slow = communicate(site.application, "POST", "/api/responses", {})
    await slow.send_input({"type": "http.request", "body": b"{", "more_body": True})
    assert (await slow.receive_output(5))["status"] == 408
    assert b"Nothing was done" in (await slow.receive_output(5))["body"]
    await slow.wait(5)
