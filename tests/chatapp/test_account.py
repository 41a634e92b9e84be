"""The account page, and what is behind it: keys, sessions, preferences, forgotten passwords."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
from allauth.account.models import EmailAddress
from allauth.usersessions.models import UserSession
from asgiref.sync import sync_to_async
from django.contrib.sessions.models import Session
from django.core import mail
from django.test import AsyncClient

from chatapp.auth import by_key
from chatapp.models import ApiKey, AuditEvent, Response, User
from chatapp.services.credentials import MAX_KEYS
from chatapp.templatetags.people import device

if TYPE_CHECKING:
    from relay import MemoryStore

PAGE = "/account/"
WINDOWS = "Mozilla/5.0 (Windows NT 10.0; Win64; x64; rv:140.0) Gecko/20100101 Firefox/140.0"
PHONE = (
    "Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like "
    "Gecko) CriOS/131.0 Mobile/15E148 Safari/604.1"
)


async def signed_in(user_agent: str = WINDOWS) -> AsyncClient:
    client = AsyncClient()
    form = {"login": "ann", "password": "correct horse"}
    reply = await client.post("/account/login/", form, headers={"user-agent": user_agent})
    assert reply.status_code == 302
    return client


async def shown(client: AsyncClient) -> str:
    return (await client.get(PAGE)).content.decode()


async def test_a_key_is_shown_once_and_works_until_it_is_revoked(user: User) -> None:
    client = await signed_in()
    reply = await client.post("/account/keys", {"name": "  backup   script "})
    assert "no-store" in reply.headers["Cache-Control"]
    key = re.search(r'id="fresh-key">([^<]+)<', reply.content.decode())
    assert key is not None
    assert (await sync_to_async(by_key)(key[1])) is not None
    page = await shown(client)
    assert "backup script" in page
    assert key[1] not in page
    row = await ApiKey.objects.aget(name="backup script")
    assert (await client.post(f"/account/keys/{row.pk}/revoke")).status_code == 302
    assert (await sync_to_async(by_key)(key[1])) is None
    assert (await client.post(f"/account/keys/{row.pk}/revoke")).status_code == 404
    actions = [event.action async for event in AuditEvent.objects.order_by("pk")]
    assert actions == ["key made", "key revoked"]
    details = [event.detail async for event in AuditEvent.objects.all()]
    assert details == [{"key": "backup script"}] * 2


async def test_nobody_piles_up_keys(user: User) -> None:
    client = await signed_in()
    rows = [ApiKey(user=user, prefix=f"ub_{n:08}", digest="x") for n in range(MAX_KEYS)]
    await ApiKey.objects.abulk_create(rows)
    reply = await client.post("/account/keys", {"name": "one more"})
    assert reply.status_code == 400
    assert f"You have {MAX_KEYS} keys" in reply.content.decode()


async def test_other_places_are_listed_and_signed_out(user: User) -> None:
    here, phone, other = await signed_in(), await signed_in(PHONE), await signed_in(PHONE)
    page = await shown(here)
    assert "Firefox on Windows" in page
    assert page.count("Chrome on iPhone</strong>") == 2
    rows = UserSession.objects.exclude(session_key=here.cookies["sessionid"].value)
    first = await rows.order_by("pk").afirst()
    assert first is not None
    assert (await here.post(f"/account/sessions/{first.pk}/end")).status_code == 302
    assert (await phone.get(PAGE)).status_code == 302
    assert (await other.get(PAGE)).status_code == 200
    await here.post("/account/sessions/end")
    assert (await other.get(PAGE)).status_code == 302
    assert (await here.get(PAGE)).status_code == 200
    assert await Session.objects.acount() == 1


async def test_this_place_is_not_signed_out_from_its_own_list(user: User) -> None:
    here = await signed_in()
    own = await UserSession.objects.aget()
    assert (await here.post(f"/account/sessions/{own.pk}/end")).status_code == 404
    assert (await here.get(PAGE)).status_code == 200


async def test_preferences_are_kept_and_reach_the_chat(user: User, store: MemoryStore) -> None:
    client = await signed_in()
    form = {"theme": "dark", "enter": "line", "keeps_answering": "on", "announces": "sentences"}
    assert (await client.post("/account/preferences", form)).status_code == 302
    home = (await client.get("/")).content.decode()
    assert 'data-theme="dark"' in home
    assert 'data-enter="line"' in home
    assert '<option value="keep" selected>' in home
    await client.post("/chats/new", {"text": "hello", "key": "k"})
    asked = await Response.objects.aget()
    assert asked.cancel_after_s is None
    chat = (await client.get(f"/chats/{asked.chat_id}/")).content.decode()
    assert '"announces": "sentences"' in chat
    await client.post("/account/preferences", {"theme": "", "enter": "sends"})
    home = (await client.get("/")).content.decode()
    assert "data-theme" not in home
    assert '<option value="stop" selected>' in home


async def test_a_look_that_there_is_not_is_refused(user: User) -> None:
    client = await signed_in()
    reply = await client.post("/account/preferences", {"theme": '"><script>'})
    assert reply.status_code == 400
    await user.arefresh_from_db()
    assert user.theme == ""


async def test_a_way_to_announce_answers_that_there_is_not_is_refused(user: User) -> None:
    client = await signed_in()
    assert (await client.post("/account/preferences", {"announces": "loudly"})).status_code == 400
    await user.arefresh_from_db()
    assert user.announces == ""


async def test_nobody_makes_an_account_unless_it_is_allowed(
    transactional_db: None, settings: Any
) -> None:
    client = AsyncClient()
    form = {"username": "eve", "password1": "long and unusual 9"}
    assert "No new accounts" in (await client.post("/account/signup/", form)).content.decode()
    assert "Make an account" not in (await client.get("/account/login/")).content.decode()
    assert not await User.objects.filter(username="eve").aexists()
    settings.SIGN_UP = True
    assert "Make an account" in (await client.get("/account/login/")).content.decode()
    assert (await client.post("/account/signup/", form)).status_code == 302
    assert (await client.get("/")).status_code == 200


async def test_a_forgotten_password_is_replaced_by_mail(user: User, settings: Any) -> None:
    settings.SENDS_MAIL = True
    await User.objects.filter(pk=user.pk).aupdate(email="ann@example.org")
    await EmailAddress.objects.acreate(
        user=user, email="ann@example.org", verified=True, primary=True
    )
    elsewhere, client = await signed_in(), AsyncClient()
    reply = await client.post("/account/forgotten/", {"email": "ann@example.org"})
    assert reply.headers["Location"] == "/account/forgotten/sent/"
    assert mail.outbox[-1].subject == "A new password for Unbroken"
    assert "the account “ann” of Unbroken" in str(mail.outbox[-1].body)
    link = re.search(r"https?://\S+?(/account/forgotten/\S+)", str(mail.outbox[-1].body))
    assert link is not None
    reply = await client.get(link[1])
    form = {"password1": "a new one, long", "password2": "a new one, long"}
    done = await client.post(reply.headers["Location"], form)
    assert done.headers["Location"] == "/account/forgotten/done/"
    assert (await elsewhere.get(PAGE)).status_code == 302  # the old password's sessions are over
    again = AsyncClient()
    used = await again.get(link[1])
    assert "This link has been used" in used.content.decode()


async def test_whether_an_address_is_known_is_not_told(user: User, settings: Any) -> None:
    settings.SENDS_MAIL = True
    client = AsyncClient()
    reply = await client.post("/account/forgotten/", {"email": "nobody@example.org"})
    assert reply.headers["Location"] == "/account/forgotten/sent/"


async def test_without_mail_somebody_else_is_to_be_asked(db: None) -> None:
    page = (await AsyncClient().get("/account/forgotten/")).content.decode()
    assert "sends no mail" in page


async def test_without_an_address_of_a_socket_people_sign_in_all_the_same(user: User) -> None:
    """Behind a Unix socket there is none; allauth alone would refuse."""
    client = AsyncClient()
    form = {"login": "ann", "password": "correct horse"}
    reply = await client.post("/account/login/", form, REMOTE_ADDR="")
    assert reply.status_code == 302


@pytest.mark.parametrize(
    ("agent", "words"),
    [
        (WINDOWS, "Firefox on Windows"),
        (PHONE, "Chrome on iPhone"),
        ("Mozilla/5.0 (X11; Linux x86_64) … Chrome/131.0.0.0 Safari/537.36", "Chrome on Linux"),
        ("… (Windows NT 10.0) … Chrome/131.0 Safari/537.36 Edg/131.0", "Edge on Windows"),
        ("… (Linux; Android 15) … Chrome/131.0 Mobile Safari/537.36", "Chrome on Android"),
        ("… (Macintosh; Intel Mac OS X 10_15) … Version/18 Safari/605", "Safari on Mac"),
        ("curl/8.0", "A browser"),
        ("", "A browser"),
    ],
)
def test_a_device_is_named_in_words(agent: str, words: str) -> None:
    assert device(agent) == words
