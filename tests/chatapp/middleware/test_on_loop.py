"""Django's middleware on the event loop: the same answers, no thread hops."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from asgiref.sync import SyncToAsync
from django.http import HttpResponse
from django.test import AsyncClient, Client
from django.urls import path

if TYPE_CHECKING:
    from django.http import HttpRequest

    from chatapp.models import User


async def plain(request: HttpRequest) -> HttpResponse:
    return HttpResponse("plain")


async def remembering(request: HttpRequest) -> HttpResponse:
    await request.session.aset("seen", True)
    return HttpResponse("remembered")


urlpatterns = [
    path("plain", plain),
    path("admin/plain", plain),
    path("remembering", remembering),
]


@pytest.fixture(autouse=True)
def _urls(settings: Any) -> None:
    settings.ROOT_URLCONF = __name__


@pytest.fixture
def hops(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the functions that were moved to a thread."""
    names: list[str] = []
    real = SyncToAsync.__call__

    async def counted(self: Any, *args: Any, **kwargs: Any) -> Any:
        names.append(getattr(self.func, "__qualname__", repr(self.func)))
        return await real(self, *args, **kwargs)

    monkeypatch.setattr(SyncToAsync, "__call__", counted)
    return names


async def test_no_middleware_costs_a_thread_hop(hops: list[str]) -> None:
    reply = await AsyncClient().get("/plain")
    assert reply.status_code == 200
    # Django's signals at both ends of a request; SiteHandler has neither (test_threads.py).
    assert [name for name in hops if "sync_send" not in name and "close" not in name] == []


async def test_a_changed_session_is_saved_in_a_thread(
    hops: list[str], transactional_db: None
) -> None:
    client = AsyncClient()
    assert (await client.get("/remembering")).status_code == 200
    assert "sessionid" in client.cookies
    assert any("process_response" in name for name in hops)


def test_a_synchronous_handler_works_as_well(transactional_db: None) -> None:
    client = Client()
    assert client.get("/plain").content == b"plain"
    assert client.get("/remembering").status_code == 200
    assert "sessionid" in client.cookies


async def test_a_form_without_its_token_is_refused() -> None:
    reply = await AsyncClient(enforce_csrf_checks=True).post("/plain")
    assert reply.status_code == 403


async def test_the_site_has_a_strict_policy() -> None:
    reply = await AsyncClient().get("/plain")
    policy = dict(part.split(" ", 1) for part in reply["Content-Security-Policy"].split("; "))
    assert policy == {
        "default-src": "'none'",
        "script-src": "'self'",
        "style-src": "'self'",
        "img-src": "'self' data:",
        "connect-src": "'self'",
        "form-action": "'self'",
        "frame-ancestors": "'none'",
        "base-uri": "'none'",
        "require-trusted-types-for": "'script'",
        "trusted-types": "'none'",
    }
    assert reply["X-Frame-Options"] == "DENY"
    assert reply["X-Content-Type-Options"] == "nosniff"
    assert reply["Referrer-Policy"] == "same-origin"


async def test_admin_is_excused_from_trusted_types_alone(user: User) -> None:
    site = (await AsyncClient().get("/plain"))["Content-Security-Policy"]
    admin = (await AsyncClient().get("/admin/plain"))["Content-Security-Policy"]
    excused = {"trusted-types 'none'", "require-trusted-types-for 'script'"}
    assert set(site.split("; ")) - set(admin.split("; ")) == excused
    assert set(admin.split("; ")) < set(site.split("; "))


async def test_a_host_that_is_not_ours_is_refused(settings: Any) -> None:
    settings.ALLOWED_HOSTS = ["chat.example.org"]
    client = AsyncClient(raise_request_exception=False)
    assert (await client.get("/plain")).status_code == 400  # the test client says "testserver"
    settings.ALLOWED_HOSTS = ["testserver"]
    assert (await client.get("/plain")).status_code == 200
