"""The whole application: lifespan, first call, and what is not HTTP."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from chatapp import runtime
from chatapp.asgi import Application
from chatapp.settings import TEMPORARY_KEY_PREFIX

if TYPE_CHECKING:
    from relay import MemoryStore
    from tests.chatapp.asgi_client import Site


def lifespan(application: Application) -> Any:
    from asgiref.testing import ApplicationCommunicator

    made: Any = ApplicationCommunicator
    return made(application, {"type": "lifespan", "asgi": {"version": "3.0"}})


async def test_lifespan_starts_and_stops_the_background_work(
    transactional_db: None, store: MemoryStore
) -> None:
    server = lifespan(Application())
    await server.send_input({"type": "lifespan.startup"})
    assert await server.receive_output(5) == {"type": "lifespan.startup.complete"}
    assert runtime.store() is store
    await server.send_input({"type": "lifespan.shutdown"})
    assert await server.receive_output(5) == {"type": "lifespan.shutdown.complete"}
    await server.wait(5)
    assert runtime.store() is not store
    await runtime.stop()


async def test_the_first_call_starts_it_where_there_is_no_lifespan(
    transactional_db: None, site: Site
) -> None:
    assert runtime.current()._sweeping is None
    assert (await site.whole("GET", "/healthz")).status_code == 200
    assert runtime.current()._sweeping is not None


async def test_a_server_without_a_secret_does_not_start(store: MemoryStore, settings: Any) -> None:
    settings.SECRET_KEY = TEMPORARY_KEY_PREFIX + "x"
    server = lifespan(Application())
    await server.send_input({"type": "lifespan.startup"})
    answer = await server.receive_output(5)
    assert answer["type"] == "lifespan.startup.failed"
    assert "SECRET_KEY" in answer["message"]


async def test_a_websocket_is_refused(transactional_db: None, site: Site) -> None:
    """Daphne hands it on unasked."""
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    await site.application({"type": "websocket", "path": "/"}, None, send)
    assert sent == [{"type": "websocket.close", "code": 1000}]


@pytest.mark.parametrize("path", ["/api/responses", "/api/chats/x/messages", "/", "/api/nothing"])
async def test_every_address_is_answered(transactional_db: None, site: Site, path: str) -> None:
    assert (await site.whole("GET", path)).status_code in (302, 404, 405)
