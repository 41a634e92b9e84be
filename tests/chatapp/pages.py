"""The site's pages as somebody without scripts meets them, and answers for them to show."""

from __future__ import annotations

import json
import re
from html import unescape
from typing import TYPE_CHECKING, Any

import pytest
from django.test import AsyncClient

from chatapp.models import Chat, Response, User
from chatapp.services.settling import record
from tests.relay.scribe import Scribe

if TYPE_CHECKING:
    from relay import MemoryStore
    from relay.generate import End


class Page:
    """What came back, as a person or a script reads it."""

    def __init__(self, response: Any) -> None:
        self.status = response.status_code
        self.headers = response.headers
        self.html = response.content.decode()

    def json(self, script_id: str) -> Any:
        found = re.search(
            rf'<script id="{script_id}" type="application/json">(.*?)</script>', self.html, re.S
        )
        assert found, f"no data {script_id!r} in the page"
        return json.loads(found[1])

    @property
    def text(self) -> str:
        """Without scripts, templates and what is hidden."""
        html = re.sub(r"<(script|template|style)\b.*?</\1>", "", self.html, flags=re.S)
        html = re.sub(r"<(\w+)[^>]*\shidden[^>]*>.*?</\1>", "", html, flags=re.S)
        return " ".join(unescape(re.sub(r"<[^>]+>", " ", html)).split())

    @property
    def box(self) -> str:
        found = re.search(r'<textarea id="text"[^>]*>\n(.*?)</textarea>', self.html, re.S)
        assert found, "no box in the page"
        return unescape(found[1])

    @property
    def key(self) -> str:
        found = re.search(r'name="key" value="(\w+)"', self.html)
        assert found, "no key in the page"
        return found[1]


class Browser:
    """A signed-in person without scripts: looks at pages, sends forms, follows redirects."""

    def __init__(self, user: User | None) -> None:
        self.client = AsyncClient()
        self._user = user

    async def get(self, path: str) -> Page:
        await self._sign_in()
        return Page(await self.client.get(path))

    async def post(self, path: str, **fields: str) -> Page:
        await self._sign_in()
        reply: Any = await self.client.post(path, fields)
        return (
            Page(reply) if reply.status_code != 302 else await self.get(reply.headers["Location"])
        )

    async def _sign_in(self) -> None:
        if self._user is not None:
            await self.client.aforce_login(self._user)
            self._user = None


async def asked(ann: Browser, chat: Chat, text: str = "How do tides work?") -> Response:
    page = await ann.post(f"/chats/{chat.pk}/send", text=text)
    assert page.status == 200
    return await Response.objects.filter(chat=chat).afirst() or pytest.fail("nothing was asked")


async def writing(store: MemoryStore, response: Response, *deltas: str) -> Scribe:
    """A worker that has written this much."""
    scribe = Scribe(store)
    scribe.rid, scribe.seq = response.pk, 1
    await scribe.claim()
    if deltas:
        await scribe.say(*deltas)
    return scribe


async def finished(store: MemoryStore, response: Response, end: End, *deltas: str) -> None:
    scribe = await writing(store, response, *deltas)
    await scribe.end(end)
    await record(response.pk)
