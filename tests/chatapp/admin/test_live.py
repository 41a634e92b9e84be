"""What runs now, as an operator sees, follows and stops it; and who is near a limit."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from asgiref.sync import sync_to_async
from django.contrib.auth.models import Group, Permission
from django.contrib.sessions.models import Session
from django.test import AsyncClient
from django.utils import timezone

from chatapp import switches
from chatapp.admin import live_page
from chatapp.models import Plan, Response, User, WorkerDrain
from chatapp.services.near import near_limits
from chatapp.services.running import Live, live
from chatapp.services.settling import submit
from relay import Circuits, RelayConfig
from relay.standing import Reporter
from tests.chatapp.conftest import make_row, scribe_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from django.test import Client

    from relay import MemoryStore

URL = "/admin/live/"


async def signed_in(staff: Callable[[str], Client], group: str) -> AsyncClient:
    await sync_to_async(staff)(group)
    client = AsyncClient()
    await client.aforce_login(await User.objects.aget(username=f"{group}-person"))
    return client


async def reported(store: MemoryStore, worker: str) -> None:
    reporter = asyncio.create_task(Reporter(store, worker, Circuits(), RelayConfig()).run())
    while worker not in await store.upstreams():
        await asyncio.sleep(0)
    reporter.cancel()


async def test_what_runs_is_told_by_rows_logs_and_workers(user: User, store: MemoryStore) -> None:
    running, queued, ended = [await sync_to_async(make_row)(user) for _ in range(3)]
    over = {"status": "completed", "ended_at": ended.created_at}
    await Response.objects.filter(pk=ended.pk).aupdate(**over)
    await submit(running)
    scribe = await scribe_of(store, running.pk)
    await scribe.say("a", "b")
    await store.attend(running.pk, "s/tab")
    await reported(store, "w1")
    seen = await live()
    by_pk = {line.pk: line for line in seen.lines}
    assert set(by_pk) == {running.pk, queued.pk}
    line = by_pk[running.pk]
    assert (line.viewers, bool(line.worker)) == (1, True)
    assert line.tokens_per_s is not None
    assert (by_pk[queued.pk].viewers, by_pk[queued.pk].worker) == (None, "")
    assert [(worker.name, worker.drained) for worker in seen.workers] == [("w1", False)]
    store.faults.unreachable = True
    assert "Redis is away" in (await live()).problem


async def test_the_page_works_without_scripts(
    staff: Callable[[str], Client], row: Response, store: MemoryStore
) -> None:
    await submit(row)
    client = await signed_in(staff, "support")
    page = (await client.get(URL)).content.decode()
    assert f'value="{row.pk}"' in page
    assert "load the page again" in page
    told = await client.post(URL, {"stop": ""}, follow=True)
    assert "No answer was chosen." in told.content.decode()
    await client.post(URL, {"stop": "", "answer": [row.pk]})
    await row.arefresh_from_db()
    assert (row.status, row.reason, row.stop_by) == ("cancelled", "admin", "support-person")
    assert "Nothing runs." in (await client.get(URL)).content.decode()


async def test_who_may_only_read_stops_and_drains_nothing(
    staff: Callable[[str], Client], row: Response, store: MemoryStore
) -> None:
    client = await signed_in(staff, "auditor")
    page = (await client.get(URL)).content.decode()
    assert 'name="stop"' not in page
    for given in ({"stop": row.pk}, {"drain": "w1"}, {"resume": "w1"}):
        assert (await client.post(URL, given)).status_code == 403
    assert not await WorkerDrain.objects.aexists()


async def test_a_drained_worker_takes_no_jobs_and_is_taken_back(
    staff: Callable[[str], Client], store: MemoryStore
) -> None:
    client = await signed_in(staff, "admin")
    await reported(store, "w1")
    await client.post(URL, {"drain": "w1"})
    await switches.refresh()
    assert not switches.takes_jobs("w1")
    assert switches.takes_jobs("w2")
    assert "Take jobs again" in (await client.get(URL)).content.decode()
    await client.post(URL, {"resume": "w1"})
    await switches.refresh()
    assert switches.takes_jobs("w1")


async def test_the_stream_tells_of_changes_and_ends_with_the_right(
    staff: Callable[[str], Client],
    row: Response,
    store: MemoryStore,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(live_page, "EVERY_S", 0.01)
    client = await signed_in(staff, "support")
    reply: Any = await client.get(f"{URL}?stream=1")
    assert reply["Content-Type"] == "text/event-stream; charset=utf-8"
    assert "no-transform" in reply["Cache-Control"]
    pieces = aiter(reply.streaming_content)
    assert await anext(pieces) == b"retry: 2000\n\n"
    tables = (await anext(pieces)).decode()
    assert tables.startswith("event: tables\ndata: ")
    assert row.pk in tables
    assert all(line.startswith(("data: ", "event: ")) for line in tables.splitlines() if line)
    await Response.objects.filter(pk=row.pk).aupdate(status="completed", ended_at=row.created_at)
    while (piece := await anext(pieces)).startswith(b": ping") or row.pk.encode() in piece:
        pass
    assert b"Nothing runs." in piece
    await User.objects.filter(username="support-person").aupdate(is_staff=False)
    assert [piece async for piece in pieces if b"tables" in piece] == []
    assert not live_page._open


async def test_a_session_that_has_run_out_loses_the_stream(
    staff: Callable[[str], Client], store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its row stays until somebody clears it away; law 15."""
    monkeypatch.setattr(live_page, "EVERY_S", 0.01)
    client = await signed_in(staff, "support")
    reply: Any = await client.get(f"{URL}?stream=1")
    pieces = aiter(reply.streaming_content)
    assert (await anext(pieces)).startswith(b"retry")
    assert b"tables" in await anext(pieces)
    await Session.objects.aupdate(expire_date=timezone.now() - timedelta(seconds=1))
    assert [piece async for piece in pieces if b"tables" in piece] == []
    assert not live_page._open


def leave_group() -> None:
    person().groups.clear()


def take(codename: str) -> None:
    Group.objects.get(name="support").permissions.remove(Permission.objects.get(codename=codename))


def new_password() -> None:
    somebody = person()
    somebody.set_password("battery-staple-9")
    somebody.save()


def person() -> User:
    return User.objects.get(username="support-person")


@pytest.mark.parametrize(
    "revoke",
    [
        pytest.param(leave_group, id="their group"),
        pytest.param(partial(take, "view_response"), id="the page, of their group"),
        pytest.param(partial(take, "stop_response"), id="stopping, of their group"),
        pytest.param(new_password, id="their password"),
    ],
)
async def test_a_stream_has_no_right_of_its_start_that_was_taken_since(
    staff: Callable[[str], Client],
    store: MemoryStore,
    monkeypatch: pytest.MonkeyPatch,
    revoke: Callable[[], None],
) -> None:
    """Also not for one more table, when it is taken while that is drawn; law 15."""
    client = await signed_in(staff, "support")
    monkeypatch.setattr(live_page, "EVERY_S", 0.01)
    reply: Any = await client.get(f"{URL}?stream=1")
    pieces = aiter(reply.streaming_content)
    assert (await anext(pieces)).startswith(b"retry")
    assert b"tables" in await anext(pieces)

    async def then_taken() -> Live:
        await sync_to_async(revoke)()
        return Live(lines=[], workers=[], problem="marker of a later look")

    monkeypatch.setattr(live_page, "live", then_taken)
    assert b"marker" not in b"".join([piece async for piece in pieces])
    assert not live_page._open


async def test_a_process_follows_for_so_many_and_no_more(
    staff: Callable[[str], Client], store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_page, "MOST_STREAMS", 0)
    client = await signed_in(staff, "support")
    reply: Any = await client.get(f"{URL}?stream=1")
    assert b"event: full" in b"".join([piece async for piece in reply.streaming_content])


def test_who_is_near_a_limit_comes_first(
    staff: Callable[[str], Client], user: User, stranger: User
) -> None:
    from django.utils import timezone

    now = timezone.now()
    user.plan = Plan.objects.create(name="small", max_output_tokens_per_day=100, max_generations=4)
    user.save()
    for person, tokens in ((user, 90), (stranger, 1000)):
        make_row(person, status="completed", ended_at=now, created_at=now, output_tokens=tokens)
    make_row(stranger)
    first, second = near_limits(now)
    assert (first.username, first.percent, first.plan) == ("ann", 90, "small")
    assert (second.username, second.running, second.most_tokens) == ("bob", 1, 0)
    page = staff("support").get("/admin/quotas/").content.decode()
    assert "90 %" in page
