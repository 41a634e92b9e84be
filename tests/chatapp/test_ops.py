"""Liveness, and readiness that says which part is missing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.test import AsyncClient

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
    from django.db import OperationalError
    from django.db.backends.base.base import BaseDatabaseWrapper

    def away(*args: Any) -> None:
        raise OperationalError("gone")

    await store.take(0, "worker", 1, 0)
    monkeypatch.setattr(BaseDatabaseWrapper, "cursor", away)
    assert await ready() == (503, ["database"])
    monkeypatch.undo()
