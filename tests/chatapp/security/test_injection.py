"""Characters that end lines and texts elsewhere, in everything that a client may name."""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import pytest
from asgiref.testing import ApplicationCommunicator
from django.test import AsyncClient

from chatapp.models import Chat
from relay import events as ev
from relay.wire.sse import Frame, SseDecoder, encode_frame
from tests.chatapp.asgi_client import QUIET_S, Exchange, _scope
from tests.chatapp.conftest import Api, is_problem, scribe_of

if TYPE_CHECKING:
    from chatapp.models import Response, User
    from relay import MemoryStore
    from tests.chatapp.asgi_client import Site

FORGED: Final = "Set-Cookie: sessionid=forged"
HOSTILE: Final = {
    "cr": f"a\r{FORGED}",
    "lf": f"a\n{FORGED}",
    "crlf": f"a\r\n{FORGED}\r\n\r\nbody",
    "frame": 'a\n\nevent: ended\ndata: {"type": "ended"}\n\n',
    "nul": "a\0b",
    "u2028": "a\u2028b\u2029c",
    "nel": "a\x85b\x0bc\x0cd",
    "surrogate": "a\ud800b",
    "wrong order": "a\udc00\ud800b",
    "rtl": "a\u202egpj.exe",
    "markup": "</script><script>alert(1)</script>",
    "template": "{{ 7*7 }}{% debug %}",
    "sql": "'; DROP TABLE chatapp_user; --",
    "path": "../../etc/passwd",
    "long": "x" * 5000,
}
hostile = pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)


async def whole(
    site: Site, method: str, path: str, body: bytes = b"", /, *, query: str = "", **headers: Any
) -> Exchange:
    """A request whose path and headers nobody has looked at: no server, no client of ours."""
    scope = _scope(method, "/", {})
    scope |= {"path": path, "raw_path": quote(path, errors="replace").encode()}
    scope["query_string"] = query.encode()
    scope["headers"] += [
        (name.replace("_", "-").encode(), value.encode("utf-8", "surrogatepass"))
        for name, value in headers.items()
    ]
    made: Any = ApplicationCommunicator
    communicator = made(site.application, scope)
    await communicator.send_input({"type": "http.request", "body": body, "more_body": False})
    exchange = Exchange(communicator)
    await exchange.start()
    if exchange.headers.get("Content-Type", "").startswith("text/event-stream"):
        await exchange.disconnect()
    else:
        await exchange.rest()
        await communicator.wait(QUIET_S)
    assert exchange.status_code < 500, exchange.content
    for name, value in exchange.headers.items():
        assert not set("\r\n\0") & set(name + value), (name, value)
    return exchange


def refused(reply: Exchange, *statuses: int) -> None:
    assert reply.status_code in statuses
    is_problem(reply, reply.status_code)


@hostile
async def test_an_id_is_known_or_not(
    text: str, row: Response, bearer: str, site: Site, store: MemoryStore
) -> None:
    wrong = (400,) if any(part in text for part in ("\0", "\ud800", "..")) else ()
    for part in (text, f"{row.pk}{text}", f"{text}{row.pk}"):
        for after in ("", "/events", "/cancel", "/leave"):
            method = "GET" if after in ("", "/events") else "POST"
            reply = await whole(site, method, f"/api/responses/{part}{after}", authorization=bearer)
            refused(reply, *(wrong or (404, 405)))
        reply = await whole(site, "GET", f"/api/chats/{part}", authorization=bearer)
        refused(reply, *(wrong or (404,)))
        reply = await whole(site, "POST", f"/chats/{part}/send", b"text=a")
        assert reply.status_code in (wrong or (302, 403, 404))


@hostile
async def test_a_cursor_or_viewer_is_one_or_is_refused(
    text: str, api: Api, bearer: str, site: Site
) -> None:
    rid = await api.ask()
    path, asked = f"/api/responses/{rid}/events", quote(text, errors="replace")
    for name in ("after", "epoch", "viewer"):
        query = f"{name}={asked}"
        refused(await whole(site, "GET", path, query=query, authorization=bearer), 400)
    refused(await whole(site, "GET", path, authorization=bearer, last_event_id=text), 400)
    path = f"/api/responses/{rid}"
    reply = await whole(site, "GET", path, query=f"viewer={asked}", authorization=bearer)
    refused(reply, 400)
    body = json.dumps({"viewer": text}).encode()
    refused(await whole(site, "POST", f"{path}/leave", body, authorization=bearer), 400)
    reply = await whole(site, "GET", "/api/chats", query=f"before={asked}", authorization=bearer)
    refused(reply, 422)


@hostile
async def test_a_header_is_understood_or_refused(
    text: str, api: Api, bearer: str, site: Site
) -> None:
    body = b'{"model": "fast", "input": "hello"}'
    await whole(site, "POST", "/api/responses", body, authorization=bearer, accept=text)
    for credential in (text, f"Bearer {text}", f"Basic {text}", f"{bearer}{text}"):
        reply = await whole(site, "POST", "/api/responses", body, authorization=credential)
        refused(reply, 401)
    refused(await whole(site, "GET", "/api/chats", cookie=f"sessionid={text}"), 401)
    for host in (text, f"localhost{text}"):
        scope_host = {"x_forwarded_host": host, "authorization": bearer}
        assert (await whole(site, "GET", "/api/chats", **scope_host)).status_code == 200
    key = {"authorization": bearer, "idempotency_key": text}
    reply = await whole(site, "POST", "/api/responses", body, **key)
    if all("!" <= char <= "~" for char in text) and len(text) < 256:
        assert reply.status_code == 202
    else:
        refused(reply, 400)


@hostile
async def test_every_text_of_a_question_is_kept_or_refused(
    text: str, api: Api, bearer: str, site: Site, settings: Any
) -> None:
    settings.RELAY = dataclasses.replace(settings.RELAY, max_generations_per_user=0)
    asked: list[dict[str, Any]] = [
        {"model": text},
        {"input": text},
        {"instructions": text},
        {"stop": [text]},
        {"metadata": {text: text}},
        {"tools": [{"type": "function", "function": {"name": text, "parameters": {}}}]},
        {"input": [{"role": text, "content": "a"}]},
        {"input": [{"role": "tool", "call_id": text, "output": text}]},
        {"on_disconnect": text},
        {text: 1},
    ]
    whole_text = text.isprintable() or not any("\ud800" <= char <= "\udfff" for char in text)
    for change in asked:
        body = json.dumps({"model": "fast", "input": "hello"} | change).encode()
        reply = await whole(site, "POST", "/api/responses", body, authorization=bearer)
        name = next(iter(change))
        if name in ("model", "on_disconnect", text) or change == asked[6]:
            refused(reply, 422)
        elif whole_text:
            assert reply.status_code == 202, (change, reply.content)
            snapshot = await whole(
                site, "GET", f"/api/responses/{reply.json()['id']}", **{"authorization": bearer}
            )
            assert snapshot.status_code == 200
        else:
            refused(reply, 422, 400)


@hostile
async def test_a_title_is_kept_or_refused_and_shown_as_text(
    text: str, user: User, bearer: str, site: Site, store: MemoryStore
) -> None:
    body = json.dumps({"title": text}).encode()
    made = await whole(site, "POST", "/api/chats", body, authorization=bearer)
    if made.status_code != 201:
        refused(made, 422)
        return
    chat = await Chat.objects.aget(pk=made.json()["id"])
    assert "\0" not in chat.title
    assert chat.title.isprintable() or not set("\r\n") & set(chat.title)
    browser = AsyncClient()
    await browser.aforce_login(user)
    page = await browser.get(f"/chats/{chat.pk}/")
    assert page.status_code == 200
    assert b"<script>alert" not in page.content
    assert b"49" not in page.content.partition(b"<title>")[2].partition(b"</title>")[0]


@hostile
async def test_no_text_of_a_model_splits_a_frame(
    text: str, api: Api, bearer: str, site: Site, store: MemoryStore
) -> None:
    """Names and ids of tools come from a provider, as text does: its word, not ours."""
    if "\ud800" in text:
        text = text.replace("\ud800", "\ufffd").replace("\udc00", "\ufffd")  # as decoders do
    rid = await api.ask()
    scribe = await scribe_of(store, rid)
    call: dict[str, Any] = {"index": 0, "call_id": text, "name": text}
    told = [
        ev.TextDelta(delta=text),
        ev.ReasoningDelta(delta=text),
        ev.Notice(code="note", message=text),
        ev.ToolCallStarted(**call),
        ev.ToolCallDelta(index=0, delta=text),
        ev.ToolCallInvalid(**call, raw=text, error=text),
    ]
    await scribe._append(told, content=True)
    scribe.text = text
    await scribe.end()
    for query in ("", "?snapshot=1"):
        url = f"/api/responses/{rid}/events{query}"
        reply = await site.whole("GET", url, authorization=bearer)
        frames = SseDecoder().feed(reply.content)
        kinds = [frame.event for frame in frames]
        assert kinds.count("ended") == 1
        assert kinds[-1] == "ended"
        if not query:
            assert [frame.id for frame in frames] == [str(n) for n in range(1, len(frames) + 1)]
            assert len(frames) == len(told) + 3
            assert json.loads(frames[2].data)["delta"] == text
        for frame in frames:
            assert json.loads(frame.data)  # on one line, since a frame's data would be joined
    snapshot = (await api.get(f"/api/responses/{rid}")).json()
    assert snapshot["text"] == text


@pytest.mark.parametrize("char", ["\r", "\n", "\0"])
def test_a_frame_cannot_be_made_of_two(char: str) -> None:
    for frame in (Frame(data="", event=f"a{char}b"), Frame(data="", id=f"1{char}2")):
        with pytest.raises(ValueError, match="CR, LF or NUL"):
            encode_frame(frame)


async def test_a_question_of_very_many_turns_is_refused(api: Api) -> None:
    turns = [{"role": "user", "content": "a"}] * 4097
    reply = await api.post("/api/responses", {"model": "fast", "input": turns})
    assert "4096" in is_problem(reply, 422)["detail"]
    assert (
        await api.post("/api/responses", {"model": "fast", "input": turns[1:]})
    ).status_code == 202


@pytest.mark.parametrize("up", ["/static/../settings.py", "/..", "/chats/../admin/"])
async def test_an_address_with_a_way_up_is_none(up: str, site: Site) -> None:
    refused(await whole(site, "GET", up), 400)
