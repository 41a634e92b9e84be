"""Codes from a phone: set up, asked for when somebody signs in, and what is done without it."""

from __future__ import annotations

import base64
import hmac
import re
import struct
import time
from typing import TYPE_CHECKING, Any

from allauth.mfa.models import Authenticator
from django.core.cache import cache
from django.test import AsyncClient, Client

from chatapp.models import AuditEvent, User

if TYPE_CHECKING:
    from relay import MemoryStore

SETUP = "/account/codes/"
CODE = "/account/code/"
AGAIN = "/account/again/"


def code_of(secret: str, steps: int = 0) -> str:
    """What a phone shows (RFC 6238), so many times 30 s from now."""
    key = base64.b32decode(secret + "=" * (-len(secret) % 8))
    digest = hmac.digest(key, struct.pack(">Q", int(time.time()) // 30 + steps), "sha1")
    (number,) = struct.unpack_from(">I", digest, digest[-1] & 15)
    return f"{(number & 0x7FFFFFFF) % 1_000_000:06}"


def wrong_of(secret: str) -> str:
    right = {code_of(secret, steps) for steps in (-2, -1, 0, 1, 2)}
    return next(code for n in range(9) if (code := f"{n}" * 6) not in right)


async def first_step(*, right: bool = True, **query: str) -> tuple[AsyncClient, Any]:
    client = AsyncClient()
    form = {"login": "ann", "password": "correct horse" if right else "wrong", **query}
    return client, await client.post("/account/login/", form)


async def proved() -> AsyncClient:
    """Ann, who has given her password once more, and may change how she signs in."""
    client, _ = await first_step()
    asked = (await client.get(SETUP)).headers["Location"]
    assert asked.startswith(AGAIN), "a browser that was left open must not be enough"
    assert "Is it you?" in (await client.get(asked)).content.decode()
    reply = await client.post(asked, {"password": "correct horse"})
    assert reply.headers["Location"] == SETUP
    return client


async def set_up() -> tuple[AsyncClient, str]:
    """Ann signed in, with codes turned on; and the secret that her phone has."""
    client = await proved()
    page = (await client.get(SETUP)).content.decode()
    secret = re.search(r'class="secret"[^>]*>(\w+)<', page)
    assert secret is not None
    reply = await client.post(SETUP, {"code": code_of(secret[1])})
    assert reply.headers["Location"] == "/account/recovery/"
    # A code works once; the tests that follow must not wait for the next.
    cache.clear()
    return client, secret[1]


async def test_a_code_is_asked_for_between_password_and_page(user: User) -> None:
    _, secret = await set_up()
    client, reply = await first_step()
    assert reply.headers["Location"].startswith(CODE)
    assert (await client.get("/")).status_code == 302, "the password alone opens nothing"
    assert (await client.get("/admin/")).status_code == 302
    page = (await client.post(CODE, {"code": wrong_of(secret)})).content.decode()
    assert "Incorrect code" in page
    assert (await client.get("/")).status_code == 302
    assert (await client.post(CODE, {"code": code_of(secret)})).status_code == 302
    assert (await client.get("/")).status_code == 200


async def test_a_wrong_password_is_told_before_any_code(user: User) -> None:
    await set_up()
    _, reply = await first_step(right=False)
    assert reply.status_code == 200


async def test_admin_asks_for_it_too(user: User) -> None:
    await set_up()
    await User.objects.filter(pk=user.pk).aupdate(is_staff=True)
    client, reply = await first_step(next="/admin/")
    assert reply.headers["Location"].startswith(CODE)
    assert (await client.get("/admin/")).headers["Location"] == "/admin/login/?next=/admin/"


async def test_who_guesses_codes_is_locked_out(user: User) -> None:
    _, secret = await set_up()
    client, _ = await first_step()
    pages = [await client.post(CODE, {"code": wrong_of(secret)}) for _ in range(7)]
    assert "Too many failed attempts to sign in" in pages[-1].content.decode()
    reply = await client.post(CODE, {"code": code_of(secret)})
    assert reply.status_code == 200, "not even the right one, for a while"


async def test_a_recovery_code_works_once(user: User) -> None:
    client, _ = await set_up()
    page = (await client.get("/account/recovery/")).content.decode()
    codes = re.findall(r"<li><code>(\d+)</code>", page)
    assert len(codes) == 10
    file = await client.get("/account/recovery/codes.txt")
    assert file.content.decode().split() == codes
    assert "no-store" in file.headers["Cache-Control"]
    lost, _ = await first_step()
    assert (await lost.post(CODE, {"code": codes[3]})).status_code == 302
    assert (await lost.get("/")).status_code == 200
    assert "9 recovery codes are left" in (await lost.get("/account/")).content.decode()
    again, _ = await first_step()
    assert (await again.post(CODE, {"code": codes[3]})).status_code == 200


async def test_new_recovery_codes_take_the_place_of_the_old(user: User) -> None:
    client, _ = await set_up()
    before = (await client.get("/account/recovery/codes.txt")).content.decode().split()
    reply = await client.post("/account/recovery/new/")
    assert reply.headers["Location"] == "/account/recovery/"
    after = (await client.get("/account/recovery/codes.txt")).content.decode().split()
    assert len(after) == 10
    assert not set(before) & set(after)
    lost, _ = await first_step()
    assert (await lost.post(CODE, {"code": before[0]})).status_code == 200
    assert (await lost.post(CODE, {"code": after[0]})).status_code == 302
    events = AuditEvent.objects.order_by("pk").values_list("action", flat=True)
    assert [event async for event in events] == ["codes turned on", "recovery codes made"]


async def test_it_is_turned_off_by_who_proves_themselves(user: User) -> None:
    client, _ = await set_up()
    assert (await client.post("/account/codes/off/")).headers["Location"] == "/account/"
    _, reply = await first_step()
    assert reply.headers["Location"] == "/"
    assert not await Authenticator.objects.aexists()
    events = AuditEvent.objects.order_by("pk").values_list("action", "username")
    assert [event async for event in events] == [
        ("codes turned on", "ann"),
        ("codes turned off", "ann"),
    ]


async def test_who_signed_in_long_ago_is_asked_again(user: User, settings: Any) -> None:
    client, _ = await set_up()
    settings.ACCOUNT_REAUTHENTICATION_TIMEOUT = -1
    reply = await client.get("/account/codes/off/")
    assert reply.status_code == 302
    assert reply.headers["Location"].startswith(AGAIN)
    assert "Is it you?" in (await client.get("/account/code/again/")).content.decode()
    assert await Authenticator.objects.acount() == 2


def test_an_administrator_helps_who_has_lost_phone_and_codes(
    user: User, store: MemoryStore
) -> None:
    Authenticator.objects.create(user=user, type="totp", data={"secret": "A" * 32})
    boss = User.objects.create_superuser("boss")
    client = Client()
    client.force_login(boss)
    form = {"action": "ask_for_no_codes", "_selected_action": [user.pk]}
    assert client.post("/admin/chatapp/user/", form).status_code == 302
    assert not Authenticator.objects.exists()
    event = AuditEvent.objects.get(action="codes turned off")
    assert (event.actor, event.username, event.action) == ("boss", "ann", "codes turned off")


async def test_the_picture_is_part_of_the_page(user: User) -> None:
    """The policy of the site refuses pictures that are addresses of data."""
    client = await proved()
    reply = await client.get(SETUP)
    page = reply.content.decode()
    assert '<div class="scan"><svg viewBox="0 0 ' in page
    assert "data:image" not in page
    assert "style=" not in page
    assert "no-store" in reply.headers["Cache-Control"]
