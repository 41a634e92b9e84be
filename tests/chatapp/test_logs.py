"""One line for people or for machines, with the ids of whoever it is about."""

from __future__ import annotations

import json
import logging
import sys
from typing import TYPE_CHECKING, Any

import pytest
from structlog.contextvars import bound_contextvars

from chatapp.logs import Formatter
from chatapp.middleware.problems import new_request_id
from tests.chatapp.conftest import scribe_of

if TYPE_CHECKING:
    from relay import MemoryStore
    from tests.chatapp.asgi_client import Site


def record(message: str, **more: Any) -> logging.LogRecord:
    made = logging.LogRecord("chatapp.x", logging.WARNING, "", 1, message, None, None)
    made.__dict__.update(more)
    return made


def test_a_line_is_the_message_and_the_ids_in_context() -> None:
    plain = Formatter("lines").format(record("put off"))
    assert plain.endswith(" WARNING chatapp.x: put off")
    with bound_contextvars(request_id="r-1", response_id="resp_0_a"):
        line = Formatter("lines").format(record("put off"))
    assert line.endswith("chatapp.x: put off [request_id=r-1 response_id=resp_0_a]")


def test_json_is_one_object_a_line_with_the_ids_as_fields() -> None:
    with bound_contextvars(request_id="r-1"):
        line = Formatter("json").format(record("two\nlines", error="r-1"))
    assert "\n" not in line
    told = json.loads(line)
    assert told.pop("at")
    assert told == {
        "level": "WARNING",
        "logger": "chatapp.x",
        "event": "two\nlines",
        "request_id": "r-1",
        "error_id": "r-1",
    }


def test_an_id_that_is_an_errors_stands_there_once() -> None:
    with bound_contextvars(request_id="r-1"):
        line = Formatter("lines").format(record("failed", error="r-1"))
    assert line.count("r-1") == 1
    assert line.endswith("failed (error r-1)")


@pytest.mark.parametrize("shape", ["lines", "json"])
def test_a_traceback_is_kept(shape: Any) -> None:
    try:
        raise ZeroDivisionError("ours")
    except ZeroDivisionError:
        fault = sys.exc_info()
    line = Formatter(shape).format(record("failed", exc_info=fault))
    assert "ZeroDivisionError: ours" in line
    assert ("\n" in line) is (shape == "lines")


def test_an_id_of_the_outside_is_taken_if_it_can_be_one() -> None:
    assert new_request_id(b"0af76519-16cd-43dd") == "0af76519-16cd-43dd"
    for odd in (
        b"",
        b"short",
        b"a" * 65,
        b"a b c d e f",
        b"-leading-dash",
        b"x\r\ny: zzzzzz",
        b"\xff" * 9,
    ):
        made = new_request_id(odd)
        assert len(made) == 12
        assert made != new_request_id(odd)


async def test_each_answer_says_the_id_of_its_request(
    site: Site, store: MemoryStore, bearer: str
) -> None:
    """Django's, the streams', the door's and the problems'."""
    asked = {"Authorization": bearer, "X-Request-ID": "my-own-id-1"}
    reply = await site.whole("GET", "/healthz", **{"X-Request-ID": "my-own-id-1"})
    assert reply.headers["X-Request-Id"] == "my-own-id-1"
    made = (await site.whole("GET", "/healthz")).headers["X-Request-Id"]
    assert len(made) == 12
    body = json.dumps({"model": "fast", "input": "hello"}).encode()
    created = await site.whole("POST", "/api/responses", body, **asked)
    assert created.headers["X-Request-Id"] == "my-own-id-1"
    rid = created.json()["id"]
    scribe = await scribe_of(store, rid)
    await scribe.end()
    events = await site.whole("GET", f"/api/responses/{rid}/events", **asked)
    assert (events.status_code, events.headers["X-Request-Id"]) == (200, "my-own-id-1")
    missing = await site.whole("GET", "/api/responses/none/events", **asked)
    assert (missing.status_code, missing.headers["X-Request-Id"]) == (404, "my-own-id-1")


async def test_a_mistake_is_found_by_the_id_of_its_request(
    site: Site,
    store: MemoryStore,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr("chatapp.ops._database", lambda: 1 / 0)
    reply = await site.whole("GET", "/readyz", **{"X-Request-ID": "my-own-id-2"})
    assert (reply.status_code, reply.headers["X-Request-Id"]) == (500, "my-own-id-2")
    assert "my-own-id-2" in reply.content.decode()
    (failed,) = (one for one in caplog.records if one.name == "django.request")
    assert failed.__dict__["error"] == "my-own-id-2"
