"""The page on which people take their data along, or have it erased."""

from __future__ import annotations

import zipfile
from io import BytesIO
from typing import TYPE_CHECKING, Any

import pytest
from django.test import AsyncClient

from chatapp.models import Chat, Message, User
from tests.chatapp.conftest import talk

if TYPE_CHECKING:
    from relay import MemoryStore

DATA = "/account/data/"


@pytest.fixture
async def ann(user: User, chat: Chat, store: MemoryStore) -> AsyncClient:
    """Signed in, and asked for her password once more."""
    from asgiref.sync import sync_to_async

    await sync_to_async(talk)(chat, "said by ann", "tea")
    client = AsyncClient()
    await client.post("/account/login/", {"login": "ann", "password": "correct horse"})
    asked = await client.get(DATA)
    if asked.status_code == 302:
        assert asked.headers["Location"].startswith("/account/again/")
        done = await client.post(asked.headers["Location"], {"password": "correct horse"})
        assert done.headers["Location"] == DATA
    return client


async def test_a_browser_that_was_left_open_is_not_enough(user: User, store: MemoryStore) -> None:
    client = AsyncClient()
    await client.aforce_login(user)
    for method, path in (("get", ""), ("post", "export"), ("post", "erase")):
        reply = await getattr(client, method)(DATA + path)
        assert reply.headers["Location"].startswith("/account/again/")
    assert (await User.objects.aget()).is_active


async def test_everything_can_be_taken_along(ann: AsyncClient) -> None:
    assert "Download" in (await ann.get(DATA)).content.decode()
    reply: Any = await ann.post(DATA + "export")
    assert reply.headers["Content-Disposition"] == 'attachment; filename="unbroken-ann.zip"'
    data = b"".join([part async for part in reply.streaming_content])
    with zipfile.ZipFile(BytesIO(data)) as file:
        (chat,) = [name for name in file.namelist() if name.startswith("chats/")]
        assert "said by ann" in file.read(chat).decode()


async def test_an_account_is_erased_with_its_name_typed(ann: AsyncClient, user: User) -> None:
    wrong = await ann.post(DATA + "erase", {"name": "bob"})
    assert wrong.status_code == 400
    assert "Nothing was erased" in wrong.content.decode()
    assert await Message.objects.aexists()
    reply = await ann.post(DATA + "erase", {"name": "ann"})
    assert reply.headers["Location"] == "/account/login/"
    assert "is erased" in (await ann.get("/account/login/")).content.decode()
    assert not await Message.objects.aexists()
    assert (await User.objects.aget()).username == f"erased-{user.pk}"
    assert (await ann.get("/")).status_code == 302
    again = await ann.post("/account/login/", {"login": "ann", "password": "correct horse"})
    assert again.status_code == 200


async def test_the_last_administrator_is_told_why_not(ann: AsyncClient, user: User) -> None:
    await User.objects.aupdate(is_superuser=True, is_staff=True)
    reply = await ann.post(DATA + "erase", {"name": "ann"})
    assert reply.status_code == 400
    assert "last administrator" in reply.content.decode()
    assert (await ann.get("/")).status_code == 200
