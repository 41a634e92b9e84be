"""Signing in: attempts are counted, and who is locked out reads a sentence."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import pytest
from django.core.cache import cache
from django.test import AsyncClient
from redis import Redis

from chatapp.auth.attempts import Attempts, Json

if TYPE_CHECKING:
    from chatapp.models import User
    from relay import MemoryStore
    from tests.chatapp.asgi_client import Site

LOGIN = "/account/login/"
TRIES = 5
"""Of one name, as settings.ACCOUNT_RATE_LIMITS has it."""


async def post(site: Site, name: str, password: str) -> Any:
    page = await site.whole("GET", LOGIN)
    cookie = page.headers["Set-Cookie"].split(";")[0]
    token = cookie.partition("=")[2]
    form = urlencode({"login": name, "password": password, "csrfmiddlewaretoken": token})
    return await site.whole(
        "POST",
        LOGIN,
        form.encode(),
        content_type="application/x-www-form-urlencoded",
        cookie=cookie,
    )


async def test_a_name_that_failed_too_often_is_told_so(user: User, site: Site) -> None:
    for _ in range(TRIES):
        reply = await post(site, "ann", "wrong")
        assert reply.status_code == 200
        assert b"Too many" not in reply.content
    # The right password does not help now: else it would be known that it is the right one.
    reply = await post(site, "ann", "correct horse")
    assert reply.status_code == 200
    assert b"Too many failed attempts to sign in. Wait five minutes" in reply.content
    cache.clear()  # five minutes later
    assert (await post(site, "ann", "correct horse")).status_code == 302


async def test_an_address_that_asks_too_often_is_told_so(user: User, site: Site) -> None:
    seen = [await post(site, f"name-{n}", "wrong") for n in range(32)]
    assert any(b"Too many failed attempts to sign in" in reply.content for reply in seen[:12])
    assert seen[-1].status_code == 429
    assert b"too many attempts from this address" in seen[-1].content


async def test_admin_has_no_door_of_its_own(user: User, site: Site) -> None:
    reply = await site.whole("GET", "/admin/login/?next=/admin/")
    assert reply.status_code == 302
    assert reply.headers["Location"] == "/account/login/?next=%2Fadmin%2F"
    reply = await site.whole("POST", "/admin/login/", b"username=ann&password=x")
    assert reply.status_code in (302, 403)  # 403: no CSRF token


async def test_nobody_is_sent_elsewhere_after_signing_in(user: User, site: Site) -> None:
    for elsewhere in ("https://evil.example/", "//evil.example", "/\\evil.example"):
        reply = await site.whole("GET", f"/admin/login/?next={elsewhere}")
        assert "evil" not in reply.headers["Location"].partition("?")[0]
        client = AsyncClient()
        form = {"login": "ann", "password": "correct horse", "next": elsewhere}
        done = await client.post(LOGIN, form)
        assert done.status_code == 302
        assert done.headers["Location"] == "/"


async def test_a_new_session_is_made_by_signing_in(user: User, site: Site) -> None:
    """What was in the browser before (session fixation) is worth nothing afterwards."""
    client = AsyncClient()
    client.cookies["sessionid"] = "chosen-by-somebody-else"
    form = {"login": "ann", "password": "correct horse"}
    done = await client.post(LOGIN, form)
    assert done.status_code == 302
    assert done.cookies["sessionid"].value != "chosen-by-somebody-else"
    assert done.cookies["sessionid"]["httponly"]
    assert done.cookies["sessionid"]["secure"]
    assert done.cookies["sessionid"]["samesite"] == "Lax"


@pytest.fixture
def shared(redis_url: str) -> tuple[Attempts, Attempts]:
    return Attempts(redis_url, {}), Attempts(redis_url, {})


def test_attempts_are_counted_for_all_processes(
    shared: tuple[Attempts, Attempts], redis_url: str
) -> None:
    here, there = shared
    here.set("ann", [1.5, 2.5], 60)
    assert there.get("ann", []) == [1.5, 2.5]
    assert there.add("ann", True) is False
    there.delete("ann")
    assert here.get("ann", []) == []
    assert here.add("lock", True, timeout=10) is True
    with Redis.from_url(redis_url) as client:
        assert all(0 < client.ttl(key) <= 300 for key in client.keys("*"))


def test_what_somebody_wrote_into_redis_is_not_run() -> None:
    """Django's own serializer unpickles."""
    with pytest.raises(ValueError, match="Expecting value"):
        Json().loads(b"cos\nsystem\n(S'true'\ntR.")


def test_without_redis_a_process_counts_for_itself(caplog: pytest.LogCaptureFixture) -> None:
    alone = Attempts("redis://:secret-of-redis@127.0.0.1:9/0", {})
    alone.delete("x")
    assert alone.add("x", True, timeout=10) is True
    assert alone.add("x", True, timeout=10) is False
    alone.set("ann", [1.0], 60)
    assert alone.get("ann", []) == [1.0]
    assert "this process alone" in caplog.text
    assert "secret-of-redis" not in caplog.text


async def test_signing_in_works_without_redis(
    user: User, store: MemoryStore, site: Site, settings: Any
) -> None:
    settings.CACHES = {
        "default": {
            "BACKEND": "chatapp.auth.attempts.Attempts",
            "LOCATION": "redis://127.0.0.1:9/0",
        }
    }
    assert (await post(site, "ann", "correct horse")).status_code == 302
