"""Who may call what: every address, method and kind of caller, against one declared table.

Addresses are not listed here but found, in Django's resolver and in the ASGI routes before it: a
new one without a line in the table (addresses.py) fails the test. What was answered is written to
tests/output/authorisation.txt.
"""

from __future__ import annotations

import dataclasses
import re
from copy import copy
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

import pytest
from allauth.account.models import EmailAddress
from allauth.usersessions.models import UserSession
from asgiref.sync import sync_to_async
from django.contrib.admin.utils import quote
from django.contrib.auth.models import Group
from django.contrib.sessions.models import Session
from django.core.cache import cache
from django.test import Client
from django.urls import URLResolver, get_resolver
from django.utils import timezone

from chatapp.asgi import _routes
from chatapp.auth import make_key
from chatapp.models import ApiKey, AuditEvent, Chat, Message, Picture, Plan, Response, User
from chatapp.services.settling import submit
from relay import new_response_id
from tests.chatapp.conftest import make_row, talk
from tests.chatapp.drawings import gif
from tests.chatapp.security.addresses import (
    ASGI,
    ASGI_ALONE,
    CALLERS,
    METHODS,
    PEOPLE,
    SAFE,
    SENT,
    TABLE,
    TOKEN,
    own_api,
    own_form,
    own_page,
    public,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from relay import MemoryStore
    from tests.chatapp.asgi_client import Site

OUTPUT: Final = Path(__file__).resolve().parents[2] / "output" / "authorisation.txt"


def callers_of(people: dict[str, User]) -> dict[str, dict[str, str]]:
    """The headers that each kind of caller sends."""
    csrf = {"x-csrftoken": TOKEN}

    def cookie(user: User) -> dict[str, str]:
        client = Client()
        client.force_login(user)
        session = client.cookies["sessionid"].value
        return {"cookie": f"sessionid={session}; csrftoken={TOKEN}", **csrf}

    def bearer(key: str) -> dict[str, str]:
        return {"authorization": f"Bearer {key}", "cookie": f"csrftoken={TOKEN}", **csrf}

    gone = cookie(people["owner"])
    Session.objects.all().delete()
    revoked = make_key(people["owner"])
    ApiKey.objects.update(revoked_at=timezone.now())
    key = make_key(people["owner"])
    return {
        "anonymous": {"cookie": f"csrftoken={TOKEN}", **csrf},
        "revoked session": gone,
        "revoked key": bearer(revoked),
        "wrong key": bearer(key[:-1] + ("A" if key[-1] != "A" else "B")),
        "owner's key": bearer(key),
        "other's key": bearer(make_key(people["other"])),
        **{name: cookie(people[name]) for name in PEOPLE},
    }


def _walk(patterns: Iterable[Any], before: str = "") -> Iterator[str]:
    for pattern in patterns:
        address = before + str(pattern.pattern)
        if isinstance(pattern, URLResolver):
            yield from _walk(pattern.url_patterns, address)
        else:
            yield address


class _App:
    """Stands for each of the applications that the ASGI routes lead to."""

    def __call__(self, *_: object) -> None: ...

    events = ask = stream = report = __call__


def test_every_address_of_the_site_is_in_the_table() -> None:
    assert set(_walk(get_resolver().url_patterns)) | ASGI_ALONE == set(TABLE)
    app: Any = _App()
    assert {route.pattern.regex.pattern for route in _routes(app, app, app, app, app)} == set(ASGI)
    assert set(ASGI.values()) <= set(TABLE)


class Things:
    """What addresses are about; made anew for each method, since one of them may end it."""

    def __init__(self, people: dict[str, User]) -> None:
        cache.clear()  # attempts to sign in
        owner, other = people["owner"], people["other"]
        self.callers = callers_of(people)
        self.chat = Chat.objects.create(user=owner, model="fast", updated_at=timezone.now())
        self.response = make_row(owner, chat=self.chat)
        shown = Picture(chat=self.chat, media_type="image/gif", width=3, height=2, data=gif())
        shown.save()
        self.picture_id = shown.pk
        make_key(owner, "one to revoke")
        self.key_id = ApiKey.objects.filter(user=owner).latest("pk").pk
        elsewhere = UserSession(user=owner, ip="::", session_key=uuid4().hex, user_agent="phone")
        elsewhere.save()
        self.session_id = elsewhere.pk
        self.message, self.answer = talk(self.chat, "hello", "hi")
        audited = AuditEvent.objects.create(at=timezone.now(), actor="ann", action="test")
        self._objects: dict[str, Any] = {
            "response": quote(self.response.pk),
            "chat": self.chat.pk,
            "user": other.pk,
            "apikey": ApiKey.objects.filter(user=other).earliest("pk").pk,
            "auditevent": audited.pk,
            "plan": Plan.objects.get_or_create(name="p")[0].pk,
            "group": Group.objects.get_or_create(name="g")[0].pk,
            "emailaddress": EmailAddress.objects.get_or_create(user=other, email="b@x.example")[
                0
            ].pk,
        }

    def _message_of(self, route: str) -> int:
        """Of the person, but for what is done to answers."""
        return self.message.pk if "continue" not in route else self.answer.pk

    def url(self, route: str) -> str:
        model = route.split("/")[2] if route.count("/") > 2 else ""
        url = route.replace("^(?P<app_label>chatapp|auth|account)/$", "chatapp/")
        url = url.replace("(?P<url>.*)$", "nothing").replace("^api/", "api/nothing")
        url = re.sub("<path:object_id>", str(self._objects.get(model, 1)), url)
        url = url.replace("<int:key_id>", str(self.key_id))
        url = url.replace("<int:session_id>", str(self.session_id))
        url = url.replace("<int:picture_id>", str(self.picture_id))
        url = url.replace("<int:banner_id>", "1")
        url = re.sub(r"^\^account/email/.*", "account/email/made-up/", url)
        url = re.sub(r"^\^account/forgotten/.*", "account/forgotten/1-made-up/", url)
        url = re.sub("<id>", str(self._objects["user"]), url)
        url = url.replace("<str:kind>", "json")
        url = re.sub("<(uuid|uuidstr):chat_id>", str(self.chat.pk), url)
        url = re.sub("<((str|path):)?response_id>", self.response.pk, url)
        url = re.sub("<(int:)?message_id>", str(self._message_of(route)), url)
        url = re.sub("^diag/(stream|report)$", r"diag/\1?probe=of-the-matrix", url)
        url = re.sub("^api/events$", f"api/events?changes&follow={self.response.pk}", url)
        return "/" + re.sub("<path:content_type_id>", "1", url)


def make_people() -> dict[str, User]:
    make = User.objects.create_user
    return {
        "other": make("bob", password="p"),
        "owner": make("ann", password="p"),
        "staff": make("sam", password="p", is_staff=True),
        "superuser": User.objects.create_superuser("root", password="p"),
    }


@pytest.fixture(scope="module")
def matrix() -> Iterator[dict[str, list[str]]]:
    """Lines by address, written down when all are there."""
    lines: dict[str, list[str]] = {}
    yield lines
    head = " " * 40 + "  ".join(CALLERS)
    text = "\n".join([head, *(line for route in sorted(lines) for line in lines[route])])
    OUTPUT.parent.mkdir(exist_ok=True)
    OUTPUT.write_text(text + "\n")
    print(f"\n{text}")


def lines_of(route: str, found: dict[str, list[int]]) -> list[str]:
    same: dict[tuple[int, ...], list[str]] = {}
    for method, statuses in found.items():
        same.setdefault(tuple(statuses), []).append(method)
    rows = [f"/{route}"]
    for cells_of, methods in same.items():
        cells = (str(n).ljust(len(c)) for n, c in zip(cells_of, CALLERS, strict=True))
        rows.append(f"    {','.join(methods):<36}{'  '.join(cells)}")
    return rows


@pytest.mark.parametrize("route", sorted(TABLE), ids=lambda route: f"/{route}")
async def test_only_who_may_is_answered(
    route: str,
    transactional_db: None,
    site: Site,
    store: MemoryStore,
    settings: Any,
    matrix: dict[str, list[str]],
) -> None:
    settings.RELAY = dataclasses.replace(settings.RELAY, max_generations_per_user=0)
    rule, people = TABLE[route], await sync_to_async(make_people)()
    # Stock admin does not tell apart the methods that are neither GET nor POST.
    methods = ("GET", "POST", "DELETE") if route.startswith("admin/") else METHODS
    found: dict[str, list[int]] = {}
    for method in methods:
        things = await sync_to_async(Things)(people)
        await submit(things.response)
        found[method] = []
        for caller in CALLERS:
            if caller == "owner" and rule.kind is own_api and method not in SAFE:
                things = await sync_to_async(Things)(people)  # the owner's key has ended them
                await submit(things.response)
            headers, body = dict(things.callers[caller]), b"" if method in SAFE else rule.body
            if method not in SAFE and "api/" not in route:
                body = SENT
                headers["content-type"] = "application/x-www-form-urlencoded"
            async with site.request(method, things.url(route), body, **headers) as reply:
                found[method].append(reply.status_code)
                if reply.headers.get("Content-Type", "").startswith("text/event-stream"):
                    await reply.disconnect()
                else:
                    await reply.rest()
            if rule.kind in (own_page, own_form, own_api) and "owner" not in caller:
                await things.chat.arefresh_from_db()
                await things.response.arefresh_from_db()
                assert things.response.stop_requested_at is None, (method, caller)
    matrix[route] = lines_of(route, found)
    expected = {method: [rule.expected(caller, method) for caller in CALLERS] for method in methods}
    assert found == expected, "\n".join([*lines_of(route, expected), "was", *matrix[route]])


@pytest.mark.parametrize("caller", ["other", "staff", "superuser", "other's key"])
async def test_what_is_somebody_elses_looks_like_what_is_not(
    caller: str, transactional_db: None, site: Site, store: MemoryStore
) -> None:
    """Status, headers and body to the byte: nobody learns that there is something."""
    people = await sync_to_async(make_people)()
    things = await sync_to_async(Things)(people)
    await submit(things.response)
    nothing = copy(things)
    nothing.chat, nothing.response = Chat(), Response(id=new_response_id())
    nothing.key_id = nothing.session_id = nothing.picture_id = 999_999
    nothing.message = nothing.answer = Message(id=10**9)
    looked = 0
    for route, rule in TABLE.items():
        if rule.kind not in (own_page, own_form, own_api) or (
            caller.endswith("key") and rule.kind is not own_api
        ):
            continue
        for method in ("GET", "POST", "PATCH", "DELETE"):
            headers = things.callers[caller] | {"x-request-id": "the-same-for-both"}
            body = b"" if method == "GET" else rule.body
            there, gone = [
                await site.whole(method, one.url(route), body, **headers)
                for one in (things, nothing)
            ]
            if there.status_code != 404:
                continue
            looked += 1
            assert gone.status_code == 404
            assert there.headers == gone.headers, (route, method)
            assert _plain(there.content) == _plain(gone.content), (route, method)
    assert looked >= (8 if caller.endswith("key") else 11)


def _plain(body: bytes) -> bytes:
    return re.sub(rb'csrfmiddlewaretoken" value="[^"]*"', b"", body)


async def test_a_session_without_its_token_changes_nothing(
    transactional_db: None, site: Site, store: MemoryStore
) -> None:
    """Another site's form has the cookie but not the token."""
    people = await sync_to_async(make_people)()
    things = await sync_to_async(Things)(people)
    await submit(things.response)
    tried = 0
    for route, rule in TABLE.items():
        for method in ("POST", "PATCH", "DELETE"):
            headers = dict(things.callers["superuser" if "admin" in route else "owner"])
            del headers["x-csrftoken"]
            given = rule.answers.get(method, rule.answers.get("*", 405))
            if rule.kind is public and "logout" not in route:
                continue
            if route.startswith(("admin/", "api/", "diag/")) and given == 405:
                continue
            body, kind = rule.body, "application/json"
            if "api/" not in route:
                body, kind = SENT, "application/x-www-form-urlencoded"
            reply = await site.whole(
                method, things.url(route), body, **headers | {"content-type": kind}
            )
            assert reply.status_code == 403, (route, method)
            tried += 1
    assert tried > 100
    await things.response.arefresh_from_db()
    assert things.response.stop_requested_at is None
