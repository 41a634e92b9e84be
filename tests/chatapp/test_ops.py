"""Liveness, and readiness that says which part is missing."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from django.db import OperationalError
from django.test import AsyncClient

from chatapp import runtime
from chatapp.middleware.problems import WithErrorId
from relay import COUNTERS

if TYPE_CHECKING:
    import pytest

    from relay import MemoryStore


async def ready() -> tuple[int, list[str]]:
    reply = await AsyncClient().get("/readyz")
    return reply.status_code, reply.json()["missing"]


async def test_a_process_that_answers_is_alive() -> None:
    reply = await AsyncClient().get("/healthz")
    assert (reply.status_code, reply.content) == (200, b"ok\n")


async def test_ready_is_who_has_everything(transactional_db: None, store: MemoryStore) -> None:
    await store.take(0, "worker", 1, 0)
    assert await ready() == (200, [])


async def test_without_workers_nobody_would_answer(
    transactional_db: None, store: MemoryStore
) -> None:
    assert await ready() == (503, ["workers"])


async def test_without_redis_it_says_so(transactional_db: None, store: MemoryStore) -> None:
    store.faults.unreachable = True
    assert await ready() == (503, ["redis", "workers"])


async def test_without_a_database_it_says_so(
    transactional_db: None, store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    from django.db.backends.base.base import BaseDatabaseWrapper

    def away(*args: Any) -> None:
        raise OperationalError("gone")

    await store.take(0, "worker", 1, 0)
    monkeypatch.setattr(BaseDatabaseWrapper, "cursor", away)
    assert await ready() == (503, ["database"])
    monkeypatch.undo()


async def test_a_mistake_has_an_id_on_the_page_in_the_header_and_in_the_log(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("chatapp.ops._database", lambda: 1 / 0)
    reply = await AsyncClient(raise_request_exception=False).get("/readyz")
    made = reply.headers["X-Request-ID"]
    assert reply.status_code == 500
    assert made in reply.content.decode()
    assert "secret" not in reply.content.decode()
    record = next(record for record in caplog.records if record.name == "django.request")
    assert WithErrorId().filter(record)
    assert record.__dict__["error"] == made


async def test_a_page_whose_database_is_away_says_so_and_is_counted(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away() -> None:
        raise OperationalError("gone: secret")

    monkeypatch.setattr("chatapp.ops._database", away)
    before = COUNTERS.refusals.counts["database_away"]
    reply = await AsyncClient(raise_request_exception=False).get("/readyz")
    assert (reply.status_code, reply.headers["Retry-After"]) == (503, "5")
    assert "A part of the server is away" in reply.content.decode()
    assert "secret" not in reply.content.decode()
    assert COUNTERS.refusals.counts["database_away"] == before + 1


def test_other_lines_of_the_log_have_no_id() -> None:
    record = logging.LogRecord("x", logging.ERROR, "", 1, "text", None, None)
    assert WithErrorId().filter(record)
    assert record.__dict__["error"] == ""


async def test_a_process_that_was_told_to_stop_wants_no_new_work(
    transactional_db: None, store: MemoryStore
) -> None:
    await store.take(0, "worker", 1, 0)
    runtime.hub().move_on()
    assert await ready() == (503, ["staying"])
