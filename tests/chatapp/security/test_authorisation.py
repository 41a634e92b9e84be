"""Who may call what: every address, method and kind of caller, against one declared table.

Addresses are not listed here but found, in Django's resolver and in the ASGI routes before it: a
new one without a line in the table fails the test. What was answered is written to
tests/output/authorisation.txt.
"""

from __future__ import annotations

import dataclasses
import re
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlencode

import pytest
from allauth.account.models import EmailAddress
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
from chatapp.models import ApiKey, AuditEvent, Chat, Plan, Response, User
from chatapp.services.settling import submit
from relay import new_response_id
from tests.chatapp.conftest import make_row

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from relay import MemoryStore
    from tests.chatapp.asgi_client import Site

OUTPUT: Final = Path(__file__).resolve().parents[2] / "output" / "authorisation.txt"
METHODS: Final = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
SAFE: Final = {"GET", "HEAD", "OPTIONS"}
NOBODIES: Final = ("anonymous", "revoked session", "revoked key", "wrong key")
PEOPLE: Final = ("other", "staff", "superuser", "owner")
# Owners last: what they are let do, nobody before them may have done.
CALLERS: Final = (*NOBODIES, "other's key", "other", "staff", "superuser", "owner's key", "owner")
TOKEN: Final = "a" * 32
"""Of CSRF: every caller sends it, as a page would, so that no refusal is owed to its lack."""
SENT: Final = urlencode({"text": "hello", "key": "k"}).encode()


@dataclass(frozen=True, slots=True)
class Rule:
    """What an address answers, by method (`*`: all others), to whoever may call it."""

    kind: Callable[[str, str, int], int]
    answers: dict[str, int]
    body: bytes = b"{}"

    def expected(self, caller: str, method: str) -> int:
        given = self.answers.get(method, self.answers.get("*", 405))
        return self.kind(caller, method, given)


def public(caller: str, method: str, given: int) -> int:
    return given


def entrance(caller: str, method: str, given: int) -> int:
    """Who has signed in is led on by the form."""
    return 302 if caller in PEOPLE and method not in SAFE else given


def page(caller: str, method: str, given: int) -> int:
    """For sessions. Nobodies are sent to sign in, and so are keys: pages are no API."""
    return given if caller in PEOPLE else 302


def own_page(caller: str, method: str, given: int) -> int:
    """Somebody else's is not there, for staff as well: they have the admin."""
    if caller in PEOPLE and caller != "owner" and given != 405:
        return 404
    return page(caller, method, given)


def own_form(caller: str, method: str, given: int) -> int:
    """By any other method it leads back to its page, whosever that is."""
    return own_page(caller, method, given) if method == "POST" else 302


def api(caller: str, method: str, given: int) -> int:
    return 401 if caller in NOBODIES and given != 405 else given


def own_api(caller: str, method: str, given: int) -> int:
    if caller in ("other", "other's key", "staff", "superuser") and given != 405:
        return 404
    return api(caller, method, given)


def any_staff(caller: str, method: str, given: int) -> int:
    return given if caller in ("staff", "superuser") else 302


def admin(caller: str, method: str, given: int) -> int:
    """Who is not of the staff is sent away; staff without a permission is refused."""
    if caller == "staff" and given != 405:
        return 403
    return any_staff(caller, method, given)


def hidden_admin(caller: str, method: str, given: int) -> int:
    return 404 if caller == "staff" else any_staff(caller, method, given)


def admin_entrance(caller: str, method: str, given: int) -> int:
    """Nobodies are sent to the site's own; who is somebody, but not of the staff, is refused."""
    return 403 if caller in ("other", "owner") else any_staff(caller, method, given)


LOOK: Final = {"GET": 200, "HEAD": 200}
FORM: Final = {"GET": 200, "HEAD": 200, "OPTIONS": 200, "POST": 200, "PUT": 200}
ASK: Final = b'{"model": "fast", "input": "hello"}'
ANSWERING: Final = 409
"""The owner is let in, and told that the chat is still answering."""

TABLE: Final[dict[str, Rule]] = {
    "": Rule(page, LOOK),
    "chats/new": Rule(page, {"*": 302}),
    "chats/<uuid:chat_id>/": Rule(own_page, LOOK),
    "chats/<uuid:chat_id>/send": Rule(own_form, {"POST": ANSWERING}),
    "responses/<str:response_id>/stop": Rule(own_page, {"*": 302}),
    "responses/<str:response_id>/retry": Rule(own_page, {"POST": ANSWERING, "*": 302}),
    "account/login/": Rule(entrance, FORM),
    "account/logout/": Rule(public, LOOK | {"OPTIONS": 200, "POST": 302}),
    "account/password/": Rule(page, FORM),
    "healthz": Rule(public, {"*": 200}),
    "readyz": Rule(public, {"*": 503}),  # nobody takes jobs in this test
    "^api/": Rule(public, {"*": 404}),
    "api/": Rule(public, {"*": 404}),
    "api/openapi.json": Rule(public, {"*": 200}),
    "api/responses": Rule(api, {"POST": 202}, ASK),
    "api/responses/<response_id>": Rule(own_api, {"GET": 200}),
    "api/responses/<response_id>/events": Rule(own_api, {"GET": 200}),
    "api/responses/<response_id>/leave": Rule(own_api, {"POST": 204}),
    "api/responses/<response_id>/cancel": Rule(own_api, {"POST": 200}),
    "api/chats": Rule(api, {"GET": 200, "POST": 201}),
    "api/chats/<uuidstr:chat_id>": Rule(own_api, {"GET": 200, "PATCH": 200, "DELETE": 204}),
    "api/chats/<uuidstr:chat_id>/messages": Rule(
        own_api, {"GET": 200, "POST": ANSWERING}, b'{"text": "hello"}'
    ),
    "admin/": Rule(any_staff, {"*": 200}),
    "admin/models/": Rule(admin, {"*": 200}),
    "admin/login/": Rule(admin_entrance, FORM | {"GET": 302}),
    "admin/logout/": Rule(any_staff, {"POST": 200, "OPTIONS": 200}),
    "admin/password_change/": Rule(any_staff, FORM),
    "admin/password_change/done/": Rule(any_staff, LOOK | {"OPTIONS": 200}),
    "admin/autocomplete/": Rule(any_staff, {"GET": 403, "HEAD": 403, "OPTIONS": 200}),
    "admin/jsi18n/": Rule(any_staff, LOOK | {"OPTIONS": 200}),
    "admin/r/<path:content_type_id>/<path:object_id>/": Rule(any_staff, {"*": 404}),
    "admin/^(?P<app_label>auth|chatapp|account)/$": Rule(hidden_admin, {"*": 200}),
    "admin/(?P<url>.*)$": Rule(any_staff, {"*": 404}),
    "admin/chatapp/response/<path:response_id>/stop/": Rule(admin, {"POST": 302}),
    "admin/chatapp/user/<id>/password/": Rule(admin, {"*": 200}),
}
READ_ONLY: Final = ("chatapp/response", "chatapp/auditevent", "chatapp/chat", "chatapp/apikey")
EDITED: Final = ("chatapp/user", "chatapp/plan", "auth/group", "account/emailaddress")
for _model in (*READ_ONLY, *EDITED):
    _read_only = _model in READ_ONLY
    _one = f"admin/{_model}/<path:object_id>"
    # A person with keys cannot be deleted: keys cannot.
    _delete = {"*": 403} if _read_only else {"*": 200, "POST": 403 if "user" in _model else 302}
    TABLE.update(
        {
            f"admin/{_model}/": Rule(admin, {"*": 200}),
            f"admin/{_model}/add/": Rule(admin, {"*": 403 if _read_only else 200}),
            f"{_one}/": Rule(any_staff, {"*": 302}),
            f"{_one}/change/": Rule(admin, {"*": 200, "POST": 403} if _read_only else {"*": 200}),
            f"{_one}/history/": Rule(admin, {"*": 200}),
            f"{_one}/delete/": Rule(admin, _delete),
        }
    )

ASGI: Final = {
    r"^api/responses/(?P<response_id>[^/]+)/events$": "api/responses/<response_id>/events",
    r"^api/responses$": "api/responses",
    r"^api/chats/[^/]+/messages$": "api/chats/<uuidstr:chat_id>/messages",
    r"^api/": "^api/",
    "": "",
}
"""The routes before Django's, and one of the addresses above that passes through each."""


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

    events = ask = __call__


def test_every_address_of_the_site_is_in_the_table() -> None:
    assert set(_walk(get_resolver().url_patterns)) == set(TABLE)
    app: Any = _App()
    assert {route.pattern.regex.pattern for route in _routes(app, app, app)} == set(ASGI)
    assert set(ASGI.values()) <= set(TABLE)


class Things:
    """What addresses are about; made anew for each method, since one of them may end it."""

    def __init__(self, people: dict[str, User]) -> None:
        cache.clear()  # attempts to sign in
        owner, other = people["owner"], people["other"]
        self.callers = callers_of(people)
        self.chat = Chat.objects.create(user=owner, model="fast", updated_at=timezone.now())
        self.response = make_row(owner, chat=self.chat)
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

    def url(self, route: str) -> str:
        model = route.split("/")[2] if route.count("/") > 2 else ""
        url = route.replace("^(?P<app_label>auth|chatapp|account)/$", "chatapp/")
        url = url.replace("(?P<url>.*)$", "nothing").replace("^api/", "api/nothing")
        url = re.sub("<path:object_id>", str(self._objects.get(model, 1)), url)
        url = re.sub("<id>", str(self._objects["user"]), url)
        url = re.sub("<(uuid|uuidstr):chat_id>", str(self.chat.pk), url)
        url = re.sub("<((str|path):)?response_id>", self.response.pk, url)
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
    looked = 0
    for route, rule in TABLE.items():
        if rule.kind not in (own_page, own_form, own_api) or (
            caller.endswith("key") and rule.kind is not own_api
        ):
            continue
        for method in ("GET", "POST", "PATCH", "DELETE"):
            headers, body = dict(things.callers[caller]), b"" if method == "GET" else rule.body
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
            if route.startswith(("admin/", "api/")) and given == 405:
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
