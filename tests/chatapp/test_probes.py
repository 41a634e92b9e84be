"""The door for probes, message by message: who may, how little, and that leaving is noted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from asgiref.sync import sync_to_async
from django.core.cache import cache

from chatapp import probes
from chatapp.auth import make_key
from chatapp.doctor import make_ticket
from chatapp.doctor.tickets import TICKET_AGE_S
from chatapp.models import User
from chatapp.streams import HEADERS
from tests.chatapp.conftest import is_problem
from tests.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.chatapp.asgi_client import Site

QUIET = "/diag/stream?probe=probe-of-test&phase=quiet&silence_s=60"
FLOW = "/diag/stream?probe=probe-of-test&gap_ms=20"
REPORT = "/diag/report?probe=probe-of-test"


@pytest.fixture(autouse=True)
def _no_reports() -> Iterator[None]:
    cache.clear()
    yield
    cache.clear()


@pytest.fixture
def ticket() -> str:
    return f"Bearer {make_ticket()}"


async def status_of(site: Site, url: str, **headers: str) -> Any:
    async with site.request("GET", url, **headers) as reply:
        await reply.rest()
        return reply


async def state_of(site: Site, ticket: str) -> str:
    state: str = (await status_of(site, REPORT, authorization=ticket)).json()["state"]
    return state


async def test_frames_leave_with_the_headers_of_real_streams(site: Site, ticket: str) -> None:
    async with site.request("GET", FLOW, authorization=ticket) as stream:
        await stream.rest()
    for name, value in HEADERS:
        assert stream.headers[name.decode().title()] == value.decode()
    assert [int(event.id) for event in stream.events] == list(range(1, 41))
    hello, end = stream.events[0].data, stream.events[-1].data
    assert (hello["kind"], end["kind"]) == ("hello", "end")
    assert hello["heartbeat_s"] == 15
    assert end["at"] > hello["at"]
    assert await state_of(site, ticket) == "finished"


async def test_a_bare_stream_asks_hops_for_nothing(site: Site, ticket: str) -> None:
    async with site.request("GET", f"{FLOW}&bare=1", authorization=ticket) as stream:
        await stream.rest()
    assert not {"Cache-Control", "X-Accel-Buffering"} & stream.headers.keys()


async def test_a_viewer_that_leaves_in_a_silence_is_noted(site: Site, ticket: str) -> None:
    assert await state_of(site, ticket) == "unknown"
    async with site.request("GET", QUIET, authorization=ticket) as stream:
        await stream.chunk()
        assert await state_of(site, ticket) == "open"
        await stream.disconnect()

    async def left() -> bool:
        return await state_of(site, ticket) == "left"

    await wait_until(left, "the report to say so", timeout=20)


async def test_what_proxies_add_to_a_request_is_told(site: Site, ticket: str) -> None:
    added = {"via": "1.1 squid", "x-forwarded-for": "10.0.0.1"}
    async with site.request("GET", FLOW, authorization=ticket, **added) as stream:
        await stream.rest()
    hello = stream.events[0].data
    assert hello["via"] == "1.1 squid"
    assert hello["forwarded"] == ["x-forwarded-for"]
    assert "10.0.0.1" not in stream.received.decode()


@pytest.mark.parametrize("url", [FLOW, REPORT])
async def test_nobody_else_is_let_in(
    url: str, site: Site, ticket: str, bearer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_problem(await status_of(site, url), 401)
    is_problem(await status_of(site, url, authorization=bearer), 403)
    is_problem(await status_of(site, url, authorization=f"{ticket}x"), 401)
    monkeypatch.setattr("django.core.signing.time.time", lambda: 4e9)
    is_problem(await status_of(site, url, authorization=ticket), 401)


@pytest.mark.parametrize(
    ("language", "sentences"),
    [
        ("de", ("Melden Sie sich", "Nur die Verwaltung", "anderen SECRET_KEY")),
        ("ar", ("سجّل الدخول", "من شأن الإدارة", "غير مفتاح هذا الخادم")),
        ("fr", ("Sign in as staff", "Only staff may", "another SECRET_KEY")),
    ],
)
async def test_a_refusal_is_said_in_the_language_that_was_asked_for(
    language: str, sentences: tuple[str, ...], site: Site, ticket: str, bearer: str
) -> None:
    for authorization, sentence in zip(("", bearer, f"{ticket}x"), sentences, strict=True):
        named = {"authorization": authorization, "accept_language": language}
        refused = await status_of(site, FLOW, **named)
        assert sentence in refused.json()["detail"]


async def test_a_strange_host_and_a_bad_plan_are_refused(
    site: Site, ticket: str, settings: Any
) -> None:
    settings.ALLOWED_HOSTS = ["localhost"]
    is_problem(await status_of(site, FLOW, authorization=ticket, host="evil.example"), 400)
    is_problem(await status_of(site, f"{FLOW}&silence_s=9999", authorization=ticket), 400)


async def test_staff_need_no_ticket(site: Site, user: User) -> None:
    def promote() -> str:
        User.objects.filter(pk=user.pk).update(is_staff=True)
        return f"Bearer {make_key(user)}"

    key = await sync_to_async(promote)()
    assert (await status_of(site, REPORT, authorization=key)).status_code == 200


async def test_only_so_many_are_open_at_a_time(
    site: Site, ticket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probes, "MAX_OPEN", 1)
    async with site.request("GET", QUIET, authorization=ticket) as stream:
        await stream.chunk()
        is_problem(await status_of(site, FLOW, authorization=ticket), 429)
        await stream.disconnect()


async def test_one_ticket_is_good_for_so_many(
    site: Site, ticket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probes, "MAX_PER_TICKET", 2)
    for _ in range(2):
        assert (await status_of(site, REPORT, authorization=ticket)).status_code == 200
    refused = await status_of(site, REPORT, authorization=ticket)
    is_problem(refused, 429)
    assert 0 < int(refused.headers["Retry-After"]) <= TICKET_AGE_S + 1
    other = f"Bearer {make_ticket()}"
    assert (await status_of(site, REPORT, authorization=other)).status_code == 200
