"""The edge of event streams, message by message (design §4, PROTOCOL 4 and 5)."""

from __future__ import annotations

import asyncio
import dataclasses
from typing import TYPE_CHECKING, Any

import pytest
from asgiref.sync import sync_to_async
from django.utils import timezone

from chatapp import runtime, services
from chatapp.auth import make_key
from chatapp.finalize import Records
from chatapp.models import ApiKey, Response, User
from relay import MemoryStore, conclude
from tests.chatapp.conftest import Api, is_problem, make_row, scribe_of

if TYPE_CHECKING:
    from tests.chatapp.asgi_client import Site
    from tests.relay.scribe import Scribe


async def whole_answer(api: Api, store: MemoryStore) -> tuple[str, Scribe]:
    """One that has ended with the text "kept", and who wrote it."""
    rid = await api.ask()
    scribe = await scribe_of(store, rid)
    await scribe.say("kept")
    await scribe.end()
    return rid, scribe


async def test_a_stream_has_its_headers_and_ends_with_ended(
    api: Api, site: Site, store: MemoryStore, bearer: str
) -> None:
    rid = await api.ask()
    scribe = await scribe_of(store, rid)
    async with site.request("GET", f"/api/responses/{rid}/events", authorization=bearer) as stream:
        assert stream.status_code == 200
        assert stream.headers["Content-Type"] == "text/event-stream; charset=utf-8"
        assert stream.headers["Cache-Control"] == "no-cache, no-transform"
        assert stream.headers["X-Accel-Buffering"] == "no"
        assert "Content-Encoding" not in stream.headers
        assert (await stream.chunk()).startswith(b"retry: 2000\nid: 1\n")
        await scribe.say("Hello")
        await scribe.end()
        await stream.rest()
        events = stream.events
        assert [event.type for event in events] == ["created", "started", "text.delta", "ended"]
        assert [event.id for event in events] == ["1", "2", "3", "4"]


async def test_a_client_that_comes_back_gets_exactly_the_rest(
    api: Api, site: Site, store: MemoryStore, bearer: str
) -> None:
    rid = await api.ask()
    scribe = await scribe_of(store, rid)
    await scribe.say("a", "b", "c")
    await scribe.end()
    for cursor in range(6):
        url = f"/api/responses/{rid}/events?after={cursor}"
        reply = await site.whole("GET", url, authorization=bearer)
        assert [event.id for event in reply.events] == [str(n) for n in range(cursor + 1, 7)]


async def test_the_last_event_id_wins_over_the_query(
    api: Api, site: Site, store: MemoryStore, bearer: str
) -> None:
    rid = await api.ask()
    scribe = await scribe_of(store, rid)
    await scribe.end()
    url = f"/api/responses/{rid}/events?after=0"
    reply = await site.whole("GET", url, authorization=bearer, last_event_id="2")
    assert [event.id for event in reply.events] == ["3"]


async def test_a_cursor_at_the_end_is_answered_with_204(
    api: Api, site: Site, store: MemoryStore, bearer: str
) -> None:
    rid = await api.ask()
    scribe = await scribe_of(store, rid)
    await scribe.end()
    url = f"/api/responses/{rid}/events?after=3"
    reply = await site.whole("GET", url, authorization=bearer)
    assert (reply.status_code, reply.content) == (204, b"")


@pytest.mark.parametrize("cursor", ["abc", "-1", "1.5", "1e3", "٣", "9" * 19])
@pytest.mark.parametrize("place", ["header", "query", "epoch"])
async def test_a_cursor_that_is_no_number_is_a_problem(
    api: Api, site: Site, bearer: str, cursor: str, place: str
) -> None:
    rid = await api.ask()
    url, headers = f"/api/responses/{rid}/events", {"authorization": bearer}
    if place == "header":
        headers["last_event_id"] = cursor
    else:
        from urllib.parse import quote

        url += f"?{'after' if place == 'query' else 'epoch'}={quote(cursor)}"
    reply = await site.whole("GET", url, **headers)
    is_problem(reply, 400)


async def test_a_cursor_ahead_of_the_tail_is_answered_with_a_snapshot(
    api: Api, site: Site, store: MemoryStore, bearer: str
) -> None:
    rid = await api.ask()
    scribe = await scribe_of(store, rid)
    await scribe.say("so far")
    url = f"/api/responses/{rid}/events?after=99"
    async with site.request("GET", url, authorization=bearer) as stream:
        (event,) = await stream.until("snapshot")
        assert (event.id, event.data["text"], event.data["seq"]) == ("3", "so far", 3)
        await scribe.end()
        await stream.rest()
        assert [event.type for event in stream.events] == ["snapshot", "ended"]


async def test_a_snapshot_comes_first_when_asked_for(
    api: Api, site: Site, store: MemoryStore, bearer: str
) -> None:
    rid = await api.ask()
    await scribe_of(store, rid)
    url = f"/api/responses/{rid}/events?snapshot=1"
    async with site.request("GET", url, authorization=bearer) as stream:
        (event,) = await stream.until("snapshot")
        assert event.data["status"] == "in_progress"


@pytest.mark.parametrize(
    ("headers", "status"),
    [({}, 401), ({"authorization": "Bearer ub_00000000_wrong"}, 401), ({"cookie": "a=b"}, 401)],
)
async def test_nobody_in_particular_sees_nothing(
    api: Api, site: Site, headers: dict[str, str], status: int
) -> None:
    rid = await api.ask()
    reply = await site.whole("GET", f"/api/responses/{rid}/events", **headers)
    is_problem(reply, status)


async def test_somebody_elses_response_is_not_there(
    api: Api, site: Site, stranger: User, bearer: str
) -> None:
    rid = await api.ask()
    theirs = await asyncio.to_thread(make_key, stranger)
    for url, who in ((rid, f"Bearer {theirs}"), ("resp_0_" + "0" * 32, bearer), ("x", bearer)):
        reply = await site.whole("GET", f"/api/responses/{url}/events", authorization=who)
        is_problem(reply, 404)


async def test_a_session_may_watch(api: Api, site: Site, store: MemoryStore, user: User) -> None:
    from django.test import AsyncClient

    rid = await api.ask()
    await (await scribe_of(store, rid)).end()
    browser = AsyncClient()
    await browser.aforce_login(user)
    cookie = f"sessionid={browser.cookies['sessionid'].value}"
    reply = await site.whole("GET", f"/api/responses/{rid}/events", cookie=cookie)
    assert [event.type for event in reply.events][-1] == "ended"


async def test_a_viewer_that_vanishes_leaves_nothing_behind(
    api: Api, site: Site, store: MemoryStore, bearer: str
) -> None:
    from chatapp import runtime

    rid = await api.ask()
    before = asyncio.all_tasks()
    async with site.request("GET", f"/api/responses/{rid}/events", authorization=bearer) as stream:
        await stream.until("created")
        hub_tasks = asyncio.all_tasks() - before
        await stream.disconnect()
    left = {task for task in asyncio.all_tasks() & hub_tasks if not task.done()}
    names = {str(task.get_coro()) for task in left}
    assert not [name for name in names if "shut_when_gone" in name or "Streams" in name]
    assert repr(runtime.hub())


async def test_an_answer_goes_on_without_viewers(
    api: Api, site: Site, store: MemoryStore, bearer: str
) -> None:
    rid = await api.ask()
    scribe = await scribe_of(store, rid)
    async with site.request("GET", f"/api/responses/{rid}/events", authorization=bearer) as stream:
        await stream.until("started")
        await stream.disconnect()
    await scribe.say("still here")
    await scribe.end()
    snapshot = (await api.get(f"/api/responses/{rid}")).json()
    assert (snapshot["status"], snapshot["text"]) == ("completed", "still here")


async def test_a_revoked_key_loses_its_stream(
    api: Api, site: Site, store: MemoryStore, bearer: str
) -> None:
    rid = await api.ask()
    async with site.request("GET", f"/api/responses/{rid}/events", authorization=bearer) as stream:
        await stream.until("created")
        await site.application.live.check()
        assert await stream.quiet()
        await ApiKey.objects.aupdate(revoked_at=timezone.now())
        await site.application.live.check()
        await stream.rest()
        assert stream.received.endswith(b": this session or key is no longer valid\n")
    reply = await site.whole("GET", f"/api/responses/{rid}/events", authorization=bearer)
    is_problem(reply, 401)


async def test_after_the_log_is_gone_the_record_answers(
    api: Api, site: Site, store: MemoryStore, bearer: str
) -> None:
    rid, _ = await whole_answer(api, store)
    await Records().finalize(await conclude(store, rid))
    await store.retire(rid)
    url = f"/api/responses/{rid}/events"
    reply = await site.whole("GET", url, authorization=bearer)
    snapshot, ended = reply.events
    assert (snapshot.type, snapshot.data["text"]) == ("snapshot", "kept")
    assert (ended.type, ended.data["status"], ended.id) == ("ended", "completed", snapshot.id)
    reply = await site.whole("GET", url, authorization=bearer, last_event_id=ended.id)
    assert reply.status_code == 204


async def test_the_record_of_a_final_answer_needs_no_store(
    api: Api, site: Site, store: MemoryStore, bearer: str
) -> None:
    rid, _ = await whole_answer(api, store)
    await Records().finalize(await conclude(store, rid))
    store.faults.unreachable = True
    reply = await site.whole("GET", f"/api/responses/{rid}/events", authorization=bearer)
    assert [event.type for event in reply.events] == ["snapshot", "ended"]
    store.faults.unreachable = False


async def test_who_has_seen_the_end_is_not_shown_a_log_that_lost_it(
    api: Api, site: Site, store: MemoryStore, bearer: str
) -> None:
    """PROTOCOL 8.1, after a fail-over: seed 17 of `make chaos`, r23."""
    rid = await api.ask()
    scribe = await scribe_of(store, rid)
    await scribe.say("kept")
    before = store.replica()
    await scribe.say(" too")
    await scribe.end()
    await Records().finalize(await conclude(store, rid))
    store.promote(before)
    url = f"/api/responses/{rid}/events"
    end = str(scribe.seq)
    assert (
        await site.whole("GET", url, authorization=bearer, last_event_id=end)
    ).status_code == 204
    lost = str(scribe.seq - 1)
    reply = await site.whole("GET", url, authorization=bearer, last_event_id=lost)
    assert [event.type for event in reply.events] == ["snapshot", "ended"]
    assert reply.events[0].data["text"] == "kept too"


async def test_who_has_seen_the_end_and_waits_for_its_log_is_shown_it_once(
    api: Api, site: Site, store: MemoryStore, bearer: str
) -> None:
    """Seed 17 of `make chaos`, r500: the log is lost with its end before the record is final."""
    rid, scribe = await whole_answer(api, store)
    outcome = await conclude(store, rid)
    hub = runtime.hub()
    hub.config = dataclasses.replace(hub.config, lease_s=0.1, check_s=0.05)
    # No sweep makes the log of one that has begun anew.
    await Response.objects.filter(pk=rid).aupdate(status="in_progress")
    store.lose_everything()
    url = f"/api/responses/{rid}/events?after={scribe.seq}"
    async with site.request("GET", url, authorization=bearer) as stream:
        assert (await stream.chunk()).startswith(b"retry: 2000\n")
        await Records().finalize(outcome)
        await stream.rest()
        assert stream.events == []
    assert (await site.whole("GET", url, authorization=bearer)).status_code == 204


async def test_blanks_around_a_cursor_are_no_part_of_it(
    api: Api, site: Site, store: MemoryStore, bearer: str
) -> None:
    rid = await api.ask()
    scribe = await scribe_of(store, rid)
    await scribe.end()
    url = f"/api/responses/{rid}/events"
    reply = await site.whole("GET", url, authorization=bearer, last_event_id=f"{scribe.seq} ")
    assert reply.status_code == 204


async def test_a_host_that_is_not_ours_gets_no_stream(
    api: Api, site: Site, bearer: str, settings: Any
) -> None:
    rid = await api.ask()
    settings.ALLOWED_HOSTS = ["localhost"]
    url = f"/api/responses/{rid}/events"
    is_problem(await site.whole("GET", url, authorization=bearer, host="evil.example"), 400)


async def test_a_log_retired_in_mid_stream_is_followed_by_the_record(
    api: Api, site: Site, store: MemoryStore, bearer: str
) -> None:
    rid = await api.ask()
    async with site.request("GET", f"/api/responses/{rid}/events", authorization=bearer) as stream:
        await stream.until("created")
        row = await Response.objects.aget(pk=rid)
        await services.repair._give_up(row.pk)
        await store.retire(rid)
        await stream.rest()
        assert [event.type for event in stream.events] == ["created", "snapshot", "ended"]
        assert stream.events[-1].data["reason"] == "worker_lost"


async def test_a_row_whose_log_is_late_is_waited_for(
    api: Api, site: Site, store: MemoryStore, bearer: str, row: Response
) -> None:
    url = f"/api/responses/{row.pk}/events"
    async with site.request("GET", url, authorization=bearer) as stream:
        assert (await stream.chunk()).startswith(b"retry: 2000\n")
        await services.settling.submit(row)
        assert [event.type for event in await stream.until("created")] == ["created"]


async def test_who_waits_for_a_log_that_never_comes_is_told_the_record(
    api: Api, site: Site, store: MemoryStore, bearer: str, user: User
) -> None:
    """PROTOCOL 10.6: both lost their log, the answer and whoever watches it."""
    row = await sync_to_async(make_row)(user, status="in_progress")  # no sweep makes it anew
    hub = runtime.hub()
    hub.config = dataclasses.replace(hub.config, lease_s=0.1)
    url = f"/api/responses/{row.pk}/events"
    async with site.request("GET", url, authorization=bearer) as stream:
        assert (await stream.chunk()).startswith(b"retry: 2000\n")
        await services.repair._give_up(row.pk)
        await stream.rest()
        assert [event.type for event in stream.events] == ["snapshot", "ended"]
        assert stream.events[-1].data["reason"] == "worker_lost"


async def test_too_many_viewers_are_told_so(
    api: Api, site: Site, store: MemoryStore, bearer: str, settings: Any
) -> None:
    import dataclasses

    from chatapp import runtime

    rid = await api.ask()
    runtime.hub().config = dataclasses.replace(settings.RELAY, max_viewers_per_response=1)
    url = f"/api/responses/{rid}/events?viewer="
    async with site.request("GET", url + "a", authorization=bearer) as stream:
        await stream.until("created")
        reply = await site.whole("GET", url + "b", authorization=bearer)
        is_problem(reply, 429)


async def test_events_take_no_other_method(api: Api, site: Site, bearer: str) -> None:
    rid = await api.ask()
    reply = await site.whole("POST", f"/api/responses/{rid}/events", b"{}", authorization=bearer)
    is_problem(reply, 405)
    assert reply.headers["Allow"] == "GET"


async def test_an_absent_store_is_503_for_a_viewer(
    api: Api, site: Site, store: MemoryStore, bearer: str
) -> None:
    rid = await api.ask()
    store.faults.unreachable = True
    reply = await site.whole("GET", f"/api/responses/{rid}/events", authorization=bearer)
    is_problem(reply, 503)
    assert reply.headers["Retry-After"] == "5"
    store.faults.unreachable = False
