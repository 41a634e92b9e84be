"""Whoever loses the right to look loses the open stream within 5 s (law 15, PROTOCOL 11)."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import time
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Final

import httpx
import pytest

from tests.site import Site, ask
from tests.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Mapping

pytestmark = [pytest.mark.process, pytest.mark.alone]

LAW_S: Final = 5.0
KINDS: Final[Mapping[str, str]] = {
    # Each on a person of its own; what an admin, a form or a command would write.
    "key revoked": "UPDATE chatapp_apikey SET revoked_at = CURRENT_TIMESTAMP WHERE user_id = :user",
    "key deleted": "DELETE FROM chatapp_apikey WHERE user_id = :user",
    "key, person deactivated": "UPDATE chatapp_user SET is_active = 0 WHERE id = :user",
    "session ended": "DELETE FROM django_session WHERE session_key = :session",
    "session expired": (
        "UPDATE django_session SET expire_date = '2001-01-01' WHERE session_key = :session"
    ),
    "session, password changed": "UPDATE chatapp_user SET password = 'another' WHERE id = :user",
    "session, person deactivated": "UPDATE chatapp_user SET is_active = 0 WHERE id = :user",
}
PEOPLE: Final = """
import json
from django.test import Client
from chatapp.auth import make_key
from chatapp.models import User
people = {}
for kind in %r:
    user = User.objects.create_user(kind.replace(" ", "-").replace(",", ""))
    client = Client()
    client.force_login(user)
    people[kind] = [user.pk, make_key(user), client.cookies["sessionid"].value]
print("PEOPLE" + json.dumps(people))
"""


@pytest.mark.parametrize("server", ["uvicorn", "daphne"])
async def test_each_kind_of_revocation_ends_its_stream(tmp_path: Path, server: str) -> None:
    async with Site(tmp_path, server=server) as site, AsyncExitStack() as streams:
        printed = site.manage("shell", "-c", PEOPLE % ([*KINDS, "nothing"],))
        people = json.loads(printed.partition("PEOPLE")[2])
        closed: dict[str, float] = {}
        tails: dict[str, bytes] = {}
        following = []

        async def follow(kind: str, reply: httpx.Response) -> None:
            async for chunk in reply.aiter_raw():
                tails[kind] = tails.get(kind, b"") + chunk
            closed[kind] = time.monotonic()

        for kind, (_, key, session) in people.items():
            by_key = {"Authorization": f"Bearer {key}"}
            asking = httpx.AsyncClient(base_url=site.urls[0], headers=by_key, timeout=30)
            client = await streams.enter_async_context(asking)
            rid = await ask(client, "say:2000 every:50")
            headers = {"Cookie": f"sessionid={session}"} if "session" in kind else by_key
            watching = httpx.AsyncClient(base_url=site.urls[0], headers=headers, timeout=30)
            watcher = await streams.enter_async_context(watching)
            stream = watcher.stream("GET", f"/api/responses/{rid}/events")
            reply = await streams.enter_async_context(stream)
            assert reply.status_code == 200, kind
            following.append(asyncio.create_task(follow(kind, reply)))
        await wait_until(lambda: len(tails) == len(people), "all streams to have begun", timeout=20)
        assert closed == {}

        with sqlite3.connect(tmp_path / "db.sqlite3", timeout=20) as database:
            for kind, sql in KINDS.items():
                user, _, session = people[kind]
                database.execute(sql, {"user": user, "session": session})
        revoked_s = time.monotonic()
        database.close()

        await wait_until(
            lambda: set(KINDS) <= set(closed), "every revoked stream to end", timeout=20
        )
        took = {kind: closed[kind] - revoked_s for kind in KINDS}
        print(f"\n{server}: " + ", ".join(f"{kind} {s:.1f} s" for kind, s in took.items()))
        assert max(took.values()) < LAW_S
        for kind in KINDS:
            assert b"no longer valid" in tails[kind], kind
            assert b"event: ended" not in tails[kind], kind
        assert "nothing" not in closed, "nobody else loses anything"
        # What was taken away opens no new stream either.
        for kind, (_, key, session) in people.items():
            headers = (
                {"Cookie": f"sessionid={session}"}
                if "session" in kind
                else {"Authorization": f"Bearer {key}"}
            )
            async with httpx.AsyncClient(base_url=site.urls[0], headers=headers) as client:
                again = await client.get("/api/responses/resp_0_" + "0" * 32)
                assert again.status_code == (404 if kind == "nothing" else 401), kind
        for task in following:
            task.cancel()
        await asyncio.gather(*following, return_exceptions=True)
