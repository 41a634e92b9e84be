"""A site in memory: people, a models file, a store; and the two kinds of clients."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from django.core.cache import cache
from django.db import connection
from django.test import AsyncClient
from django.utils import timezone

from chatapp import runtime, switches
from chatapp.auth import make_key
from chatapp.models import Chat, Message, Response, User
from relay import Disconnect, GenerationRequest, MemoryStore, Store, new_response_id, now_rfc3339
from tests.chatapp.asgi_client import Site
from tests.chatapp.pages import Browser
from tests.relay.scribe import Scribe

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from pytest_django import DjangoDbBlocker

MODELS = """
[models.fast]
dialect = "openai-chat"
base_url = "http://127.0.0.1:9/v1"
upstream_model = "fast-1"

[models.other]
dialect = "openai-chat"
base_url = "http://127.0.0.1:9/v1"
upstream_model = "other-1"
"""


@pytest.fixture
def with_fallback(tmp_path: Path, settings: Any, _site_settings: None) -> None:
    """Two models, of which `other` may take the place of `fast`."""
    path = tmp_path / "with_fallback.toml"
    path.write_text(MODELS.replace("\n\n", '\nfallback = ["other"]\n\n', 1))
    settings.RELAY_MODELS = str(path)


@pytest.fixture(autouse=True)
def _no_switch_is_known() -> Iterator[None]:
    switches._known = switches._Known()
    yield
    switches._known = switches._Known()


@pytest.fixture(autouse=True)
def _site_settings(tmp_path: Path, settings: Any) -> None:
    path = tmp_path / "models.toml"
    path.write_text(MODELS)
    settings.RELAY_MODELS = str(path)
    settings.SECRET_KEY = "of the tests"
    cache.clear()  # attempts to sign in
    plain = {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}
    settings.STORAGES = settings.STORAGES | {"staticfiles": plain}  # nobody has collected them
    settings.SERVESTATIC_USE_STATIC_ROOT = False
    settings.RELAY = dataclasses.replace(settings.RELAY, check_s=0.2)


class Clock:
    """The store's clock, which tests move on instead of sleeping."""

    def __init__(self) -> None:
        self._ahead_s = 0.0

    def __call__(self) -> float:
        return time.time() + self._ahead_s

    def advance(self, seconds: float) -> None:
        self._ahead_s += seconds


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def store(clock: Clock, settings: Any) -> AsyncIterator[MemoryStore]:
    """This test's store, behind `runtime.store()`; tests may order its faults."""
    made = MemoryStore(settings.RELAY, clock=clock)
    async with runtime.using(made):
        runtime.hub()
        for _ in range(5):  # turns of the loop until the hub listens
            await asyncio.sleep(0)
        yield made


@pytest.fixture
def transactional_db(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[None]:
    """The test database, empty again afterwards.

    What pytest-django's fixture of this name does, without making all permissions anew each time:
    that takes 0.2 s. A transaction that is rolled back would not do, since the code under test
    works in several threads, each with a connection of its own.
    """
    with django_db_blocker.unblock():
        yield
        kept = {"django_migrations", "django_content_type", "auth_permission"}
        with (
            connection.constraint_checks_disabled(),
            connection.cursor() as cursor,
            without_triggers(),
        ):
            for table in set(connection.introspection.table_names(cursor)) - kept:
                cursor.execute(f"DELETE FROM {connection.ops.quote_name(table)}")  # noqa: S608


@contextmanager
def without_triggers() -> Iterator[None]:
    """What a stranger with the database's password can do: the trail's triggers refuse nothing.

    On PostgreSQL without foreign keys as well.
    """
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute("SET session_replication_role = replica")
            try:
                yield
            finally:
                cursor.execute("SET session_replication_role = DEFAULT")
            return
        cursor.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'")
        triggers = cursor.fetchall()
        for name, _ in triggers:
            cursor.execute(f"DROP TRIGGER {name}")
        try:
            yield
        finally:
            for _, statement in triggers:
                cursor.execute(statement)


@pytest.fixture(scope="session", autouse=True)
def _flush_without_triggers() -> Iterator[None]:
    """For tests marked `django_db(transaction=True)`: Django empties all tables after them.

    For the whole session: pytest-django flushes when a test's own fixtures are gone.
    """
    flush = connection.ops.execute_sql_flush

    def flush_all(statements: Any) -> Any:
        with without_triggers():
            return flush(statements)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(connection.ops, "execute_sql_flush", flush_all)
        yield


@pytest.fixture
def user(transactional_db: None) -> User:
    return User.objects.create_user("ann", password="correct horse")


@pytest.fixture
def stranger(transactional_db: None) -> User:
    return User.objects.create_user("bob", password="battery staple")


@pytest.fixture
def key(user: User) -> str:
    return make_key(user)


@pytest.fixture
def bearer(key: str) -> str:
    """The header `Authorization` of ann's key."""
    return f"Bearer {key}"


@pytest.fixture
def chat(user: User) -> Chat:
    return Chat.objects.create(user=user, model="fast", updated_at=timezone.now())


def talk(chat: Chat, *texts: str) -> list[Message]:
    """What was said in a chat so far, by the person and the assistant in turns; it is shown."""
    said: list[Message] = []
    for n, text in enumerate(texts, start=1):
        role = Message.Role.USER if n % 2 else Message.Role.ASSISTANT
        parent = said[-1] if said else None
        said.append(
            Message.objects.create(chat=chat, role=role, text=text, position=n, parent=parent)
        )
    chat.current = said[-1]
    chat.save()
    return said


def make_row(
    user: User, *, asked: Any = "hello", patience: Disconnect | None = None, **columns: Any
) -> Response:
    """A queued row as the services write it; its log is not made."""
    response_id = new_response_id()
    request = GenerationRequest(
        response_id=response_id,
        model="fast",
        messages=[{"role": "user", "content": asked}],
        created_at=now_rfc3339(),
        on_disconnect=patience or Disconnect(),
    )
    given: dict[str, Any] = {
        "id": response_id,
        "user": user,
        "model": "fast",
        "request": request.to_json().decode(),
        "request_hash": "0" * 64,
        "created_at": timezone.now(),
        "cancel_after_s": request.on_disconnect.cancel_after_s,
        "leave_after_s": request.on_disconnect.leave_after_s,
    }
    return Response.objects.create(**(given | columns))


@pytest.fixture
def row(user: User) -> Response:
    """A queued response of ann's, without a log."""
    return make_row(user)


@pytest.fixture
def ann(user: User, store: MemoryStore) -> Browser:
    """Ann at the pages, without scripts."""
    return Browser(user)


class Api:
    """JSON requests with a bearer key; Django's client loses default headers when it is async."""

    def __init__(self, key: str) -> None:
        self._client = AsyncClient(raise_request_exception=False)
        self._headers = {"Authorization": f"Bearer {key}"} if key else {}

    async def get(self, path: str, **headers: str) -> Any:
        return await self._client.get(path, headers=self._headers | _names(headers))

    async def delete(self, path: str) -> Any:
        return await self._client.delete(path, headers=self._headers)

    async def post(self, path: str, body: Any = None, **headers: str) -> Any:
        return await self._send("post", path, body, headers)

    async def patch(self, path: str, body: Any = None) -> Any:
        return await self._send("patch", path, body, {})

    async def put(self, path: str, body: Any = None) -> Any:
        return await self._send("put", path, body, {})

    async def ask(self, text: str = "hello", **more: Any) -> str:
        """Start an answer of the model `fast`; its id."""
        reply = await self.post("/api/responses", {"model": "fast", "input": text, **more})
        assert reply.status_code == 202, reply.content
        response_id: str = reply.json()["id"]
        return response_id

    async def _send(self, method: str, path: str, body: Any, headers: dict[str, str]) -> Any:
        data = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body)
        send = getattr(self._client, method)
        return await send(
            path,
            data,
            content_type="application/json",
            headers=self._headers | _names(headers),
        )


def _names(headers: dict[str, str]) -> dict[str, str]:
    return {name.replace("_", "-"): value for name, value in headers.items()}


@pytest.fixture
def api(key: str, store: MemoryStore) -> Api:
    """Ann's API client."""
    return Api(key)


@pytest.fixture
async def site(store: MemoryStore, transactional_db: None) -> AsyncIterator[Site]:
    """The whole ASGI application, driven message by message."""
    from chatapp.asgi import Application

    application = Application()
    yield Site(application)
    await application.aclose()


async def scribe_of(store: Store, response_id: str) -> Scribe:
    """A writer that has claimed this response."""
    scribe = Scribe(store)
    scribe.rid = response_id
    await scribe.claim()
    return scribe


def is_problem(reply: Any, status: int) -> dict[str, Any]:
    """Assert that `reply` is a problem document with this status, and return it."""
    assert reply.status_code == status, reply.content
    assert reply.headers["Content-Type"] == "application/problem+json"
    body: dict[str, Any] = reply.json()
    assert body["status"] == status
    assert body["detail"]
    assert body["title"]
    return body
