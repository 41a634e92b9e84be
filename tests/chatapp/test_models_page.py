"""The models page of the admin: what is declared, what workers have met, what ended lately."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from asgiref.sync import sync_to_async
from django.contrib.auth.models import Permission
from django.test import AsyncClient
from django.utils import timezone

from chatapp.admin.models_page import report
from chatapp.models import AuditEvent, User
from relay import CircuitState, CircuitStatus
from tests.chatapp.conftest import make_row

if TYPE_CHECKING:
    from pathlib import Path

    from chatapp.admin.models_page import Line
    from relay import MemoryStore

PAGE = "/admin/models/"


@pytest.fixture
def admin(transactional_db: None) -> User:
    return User.objects.create_superuser("root", password="x")


async def page_for(user: User, path: str = PAGE) -> Any:
    client = AsyncClient()
    await client.aforce_login(user)
    return await client.get(path)


async def lines() -> dict[str, Line]:
    return {line.config.name: line for line in (await sync_to_async(report)()).lines}


async def tell(store: MemoryStore, worker: str, **states: CircuitStatus) -> None:
    await store.report_upstreams(worker, msgspec.json.encode(states), 60)


def met(state: CircuitState, message: str = "", at: str | None = None) -> CircuitStatus:
    kind = "overloaded" if at else None
    return CircuitStatus(
        state=state,
        failures=1,
        last_error_kind=kind,
        last_error_message=message,
        last_error_at=at,
    )


async def test_the_page_says_all_of_a_model(
    admin: User, store: MemoryStore, tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAST_KEY", "sk-very-secret")
    monkeypatch.delenv("SLOW_KEY", raising=False)
    path = tmp_path / "m.toml"
    path.write_text(
        '[models.fast]\ndialect = "openai-chat"\nbase_url = "https://me:pw@api.example:8443/v1"\n'
        'upstream_model = "fast-1"\napi_key_env = "FAST_KEY"\nfallback = ["slow"]\n'
        "context_tokens = 8192\nread_s = 7.5\n"
        '[models.slow]\ndialect = "anthropic"\nbase_url = "https://other.example"\n'
        'upstream_model = "slow-1"\napi_key_env = "SLOW_KEY"\n'
    )
    settings.RELAY_MODELS = str(path)
    await tell(store, "w1", fast=met(CircuitState.OPEN, "<b>Busy.</b>", "2026-01-01T00:00:00Z"))
    reply = await page_for(admin)
    assert reply.status_code == 200
    assert "style-src 'self'" in reply.headers["Content-Security-Policy"]
    text = re.sub(r"\s+", " ", reply.content.decode())
    for part in ("api.example:8443", "openai-chat, fast-1", "FAST_KEY", "not set", "SLOW_KEY"):
        assert part in text
    for part in (
        "context 8,192 tokens",
        "silence 7.5 s",
        "first byte 120 s",
        "> open",
        "takes text<",
    ):
        assert part in text
    assert "Busy" not in text
    assert "not asked yet" in text  # slow
    assert "sk-very-secret" not in text
    assert "me:pw" not in text
    assert "style=" not in text.split('id="content-main"')[1]


async def test_what_providers_said_is_told_to_who_may_read_texts_and_noted(
    user: User, store: MemoryStore
) -> None:
    """An error may quote the question that it refuses."""

    def permit(codename: str) -> None:
        user.is_staff = True
        user.save()
        user.user_permissions.add(Permission.objects.get(codename=codename))

    def reads() -> list[Any]:
        entries = AuditEvent.objects.filter(action="text read").order_by("pk")
        return list(entries.values_list("actor", "model", "response_id", "detail"))

    said = "<b>not allowed:</b> marker of what was asked"
    error = {"code": "content_filter", "message": said, "retryable": False}
    fold = msgspec.json.encode({"status": "failed", "error": error}).decode()
    failed: dict[str, Any] = {
        "status": "failed",
        "reason": "refused",
        "answered_by": "other",
        "fold": fold,
    }
    row = await sync_to_async(make_row)(user, ended_at=timezone.now(), **failed)
    await tell(store, "w1", fast=met(CircuitState.OPEN, said, "2026-01-01T00:00:00Z"))
    await sync_to_async(permit)("view_response")
    client = AsyncClient()
    await client.aforce_login(user)
    page = (await client.get(PAGE)).content.decode()
    for told in ("overloaded", "refused", "content_filter", 'datetime="2026-01-01T00:00:00'):
        assert told in page
    assert "marker" not in page
    assert "Show what providers said" not in page
    assert (await client.post(PAGE)).status_code == 403
    await sync_to_async(permit)("show_text")
    page = (await client.get(PAGE)).content.decode()
    assert "marker" not in page
    assert "Show what providers said" in page
    assert await sync_to_async(reads)() == []
    page = (await client.post(PAGE)).content.decode()
    assert page.count("&lt;b&gt;not allowed:&lt;/b&gt; marker") == 2
    how = {"how": "models page"}
    noted = [("ann", "fast", "", how), ("ann", "other", row.pk, how)]
    assert await sync_to_async(reads)() == noted


async def test_the_worst_that_a_worker_has_met_is_shown(admin: User, store: MemoryStore) -> None:
    assert (await lines())["fast"].circuit_where == "no worker reports"
    await tell(store, "w1", fast=met(CircuitState.CLOSED))
    line = (await lines())["fast"]
    assert (line.circuit, line.circuit_where) == (CircuitState.CLOSED, "")
    await tell(store, "w0")
    assert (await lines())["fast"].circuit_where == ""
    await tell(store, "w2", fast=met(CircuitState.HALF_OPEN))
    await tell(store, "w3", fast=met(CircuitState.OPEN))
    line = (await lines())["fast"]
    assert (line.circuit, line.circuit_where) == (CircuitState.OPEN, "in 1 of 4 workers")
    assert (await lines())["other"].circuit_where == "not asked yet"


async def test_the_newest_error_of_all_workers_is_shown(admin: User, store: MemoryStore) -> None:
    await tell(store, "w1", fast=met(CircuitState.CLOSED, "last", "2026-01-01T00:00:02Z"))
    await tell(store, "w2", fast=met(CircuitState.CLOSED, "first", "2026-01-01T00:00:00Z"))
    failure = (await lines())["fast"].failure
    assert failure is not None
    assert (failure.kind, failure.message, failure.page) == ("overloaded", "last", None)


async def test_the_last_hour_counts_by_the_model_that_answered(
    user: User, admin: User, store: MemoryStore
) -> None:
    now = timezone.now()

    def write() -> str:
        by: dict[str, Any] = {"answered_by": "other", "ended_at": now - timedelta(minutes=5)}
        make_row(user, status="completed", **by)
        make_row(user, status="incomplete", reason="max_tokens", **by)
        make_row(user, status="cancelled", reason="user", **by)
        failed = make_row(user, status="failed", reason="stalled", **by)
        make_row(user, status="failed", answered_by="other", ended_at=now - timedelta(hours=2))
        make_row(user, status="failed", reason="not_found", answered_by="", ended_at=now)
        make_row(user, answered_by="other")  # still running
        return failed.pk

    pk = await sync_to_async(write)()
    found = await lines()
    assert (found["other"].answers, found["other"].failures) == (2, 1)
    assert (found["fast"].answers, found["fast"].failures) == (0, 0)
    failure = found["other"].failure
    assert failure is not None
    assert failure.kind == "stalled"
    assert pk.rpartition("_")[2] in (failure.page or "")
    client = AsyncClient()
    await client.aforce_login(admin)
    listed = await client.get(found["other"].failed_page)
    assert {row.reason for row in listed.context["cl"].result_list} == {"stalled", ""}


async def test_a_store_that_is_away_hides_no_model(admin: User, store: MemoryStore) -> None:
    store.faults.unreachable = True
    reply = await page_for(admin)
    text = reply.content.decode()
    assert reply.status_code == 200
    assert "Redis is away" in text
    assert "fast-1" in text


async def test_a_broken_models_file_is_quoted(
    admin: User, store: MemoryStore, tmp_path: Path, settings: Any
) -> None:
    path = tmp_path / "m.toml"
    path.write_text("[models.x]\n")
    settings.RELAY_MODELS = str(path)
    page = (await page_for(admin)).content.decode()
    assert "models.x: base_url, dialect, upstream_model is missing" in page
    settings.RELAY_MODELS = ""
    assert "No models are configured" in (await page_for(admin)).content.decode()


async def test_who_may_see_responses_finds_the_page_from_the_index(
    user: User, stranger: User, store: MemoryStore
) -> None:
    def permit() -> None:
        for person, permission in ((user, "view_response"), (stranger, "view_chat")):
            person.is_staff = True
            person.save()
            person.user_permissions.add(Permission.objects.get(codename=permission))

    assert (await page_for(user)).status_code == 302  # to the login: not of the staff
    await sync_to_async(permit)()
    assert f'href="{PAGE}"' in (await page_for(user, "/admin/")).content.decode()
    assert (await page_for(user)).status_code == 200
    assert f'href="{PAGE}"' not in (await page_for(stranger, "/admin/")).content.decode()
    assert (await page_for(stranger)).status_code == 403
