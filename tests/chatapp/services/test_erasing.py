"""Erasing a person leaves nothing of what they said, and the chain whole."""

from __future__ import annotations

from io import StringIO
from typing import TYPE_CHECKING, Any

import pytest
import redis
from allauth.account.models import EmailAddress
from asgiref.sync import sync_to_async
from django.apps import apps
from django.core.exceptions import ValidationError
from django.core.management import CommandError, call_command
from django.utils import timezone

from chatapp import audit, runtime
from chatapp.auth import by_key, make_key
from chatapp.auth.adapter import Adapter
from chatapp.models import ApiKey, AuditEvent, Chat, Flag, Message, Response, User
from chatapp.services import BadInput, erase_user, erasing, flags, send_message
from chatapp.services.sealing import Sealing
from chatapp.services.settling import record
from chatapp.services.verifying import ContentCheck, verification
from relay import RedisStore
from relay.generate import End
from tests.chatapp.conftest import make_row, scribe_of
from tests.chatapp.pages import Browser

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from relay import MemoryStore, Store
    from tests.relay.scribe import Scribe

SECRET = "marker-of-what-was-said"
ANSWER = "marker-of-the-answer"


@pytest.fixture
async def in_redis(redis_url: str, settings: Any) -> AsyncIterator[Store]:
    async with runtime.using(RedisStore(redis_url, settings.RELAY)) as made:
        runtime.hub()
        yield made.store


@pytest.fixture
def boss(transactional_db: None) -> User:
    return User.objects.create_superuser("boss", password="battery staple")


async def asked(user: User, store: Store) -> Scribe:
    """A question in a chat of its own; the writer of its answer has begun."""
    chat = await Chat.objects.acreate(user=user, model="fast", updated_at=timezone.now())
    sent = await send_message(user=user, chat=chat, text=SECRET)
    scribe = await scribe_of(store, sent.response.pk)
    await scribe.say(ANSWER)
    return scribe


def rows_with(text: str) -> list[str]:
    """Where a text is, in all tables but the trail, the user names of which stay."""
    found = []
    for model in apps.get_models():
        if model is AuditEvent:
            continue
        for row in model._default_manager.values():
            found += [
                f"{model.__name__}.{name}" for name, value in row.items() if text in str(value)
            ]
    return found


async def test_nothing_that_was_said_is_left_anywhere(
    in_redis: Store, redis_url: str, user: User, boss: User
) -> None:
    user.email, user.first_name = "ann@example.org", "Annabel"
    await user.asave()
    await EmailAddress.objects.acreate(user=user, email=user.email)
    await sync_to_async(make_key)(user, "script")
    ended, running = await asked(user, in_redis), await asked(user, in_redis)
    await ended.end(End.finished("stop"))
    await record(ended.rid)
    assert await sync_to_async(rows_with)(SECRET)
    assert await sync_to_async(rows_with)(ANSWER)
    await Flag.objects.acreate(
        response_id=ended.rid, note="Annabel again", by="boss", at=timezone.now()
    )
    assert {ended.rid, running.rid} <= ids_with(redis_url, SECRET, ANSWER)

    name = await erase_user(user=user, by="boss")
    assert ids_with(redis_url, SECRET, ANSWER) == {running.rid}
    # Its writer hears of the stop, as any other; with its end goes its log.
    await running.end(End.cancelled("admin"))
    await record(running.rid)
    assert ids_with(redis_url, SECRET, ANSWER) == set()
    for text in (SECRET, ANSWER, "ann@example.org", "Annabel"):
        assert await sync_to_async(rows_with)(text) == []
    row = await User.objects.aget(pk=user.pk)
    assert (row.username, row.is_active) == (name, False) == (f"erased-{user.pk}", False)
    assert not row.has_usable_password()
    assert await Chat.objects.acount() == await Message.objects.acount() == 0
    assert await ApiKey.objects.acount() == 0
    figures = [r.output_tokens async for r in Response.objects.filter(user=row)]
    assert len(figures) == 2
    assert None not in figures
    told = await AuditEvent.objects.aget(action="person erased")
    assert (told.username, told.actor, told.detail) == ("ann", "boss", {"now": name, "answers": 2})
    await Sealing()()
    assert await sync_to_async(judged)() == []
    assert await erase_user(user=row, by="boss") == name  # again: nothing more happens
    assert await AuditEvent.objects.filter(action="person erased").acount() == 1


async def test_a_question_that_was_let_in_before_is_erased_as_well(
    in_redis: Store, user: User, boss: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its request had passed the door when its person was locked out, and is written behind the
    look at what there is."""
    late: list[Scribe] = []
    look = erasing._erase_some

    async def then_it_comes(user: User, by: str) -> tuple[bool, list[str]]:
        looked = await look(user, by)
        if not late:
            late.append(await asked(user, in_redis))
        return looked

    monkeypatch.setattr(erasing, "_erase_some", then_it_comes)
    await erase_user(user=user, by="boss")
    await late[0].end(End.finished("stop"))
    await record(late[0].rid)
    for text in (SECRET, ANSWER):
        assert await sync_to_async(rows_with)(text) == []
    assert await Chat.objects.acount() == 0


async def test_others_keep_what_is_theirs(store: MemoryStore, user: User, stranger: User) -> None:
    scribe = await asked(stranger, store)
    await scribe.end(End.finished("stop"))
    await record(scribe.rid)
    await erase_user(user=user, by="")
    assert await sync_to_async(rows_with)(SECRET)
    assert (await Response.objects.aget()).fold


async def test_the_last_administrator_is_kept(store: MemoryStore, boss: User) -> None:
    with pytest.raises(BadInput, match="last administrator"):
        await erase_user(user=boss, by="boss")
    row = await User.objects.aget(pk=boss.pk)
    assert (row.is_active, row.username) == (True, "boss")


async def test_whoever_is_erased_is_signed_out_everywhere(store: MemoryStore, user: User) -> None:
    ann, key = Browser(user), await sync_to_async(make_key)(user)
    assert "Is it you?" not in (await ann.get("/account/")).text
    assert await sync_to_async(by_key)(key)
    await erase_user(user=user, by="")
    assert (await ann.get("/account/")).status == 302
    assert not await sync_to_async(by_key)(key)


def test_the_name_of_somebody_who_was_erased_is_nobody_elses(
    transactional_db: None, user: User
) -> None:
    audit.person_exported("ann", actor="")
    user.username = "erased-1"
    user.save()
    for name in ("ann", "Erased-7"):
        with pytest.raises(ValidationError, match="used here before"):
            Adapter().clean_username(name)
    assert Adapter().clean_username("carla") == "carla"


def test_the_command_asks_before_it_erases(
    user: User, monkeypatch: pytest.MonkeyPatch, settings: Any, redis_url: str
) -> None:
    settings.REDIS_URL = redis_url
    monkeypatch.setattr("builtins.input", lambda: "bob")
    with pytest.raises(CommandError, match="another name"):
        call_command("erase_user", "ann", stdout=StringIO())
    with pytest.raises(CommandError, match="no user 'nobody'"):
        call_command("erase_user", "nobody", "--yes")
    said = StringIO()
    settings.REDIS_URL = "redis://127.0.0.1:9/0"
    with pytest.raises(CommandError, match=r"Nothing was erased\."):
        call_command("erase_user", "ann", "--yes")
    assert User.objects.get().is_active
    settings.REDIS_URL = redis_url
    call_command("erase_user", "ann", "--yes", stdout=said)
    assert f"erased-{user.pk}" in said.getvalue()
    assert not User.objects.filter(username="ann").exists()


def judged() -> list[Any]:
    with verification() as check:
        return [*check.findings(), *ContentCheck().findings()]


def ids_with(url: str, *texts: str) -> set[str]:
    """Responses that Redis has a key of with one of the texts, in whatever kind of value."""
    found = set()
    with redis.Redis.from_url(url) as client:
        for key in client.scan_iter():
            content = client.dump(key) or b""
            if any(text.encode() in content for text in texts) or _in_stream(client, key, texts):
                found.add(key.decode().split(":")[2])
    return found


def _in_stream(client: redis.Redis, key: bytes, texts: tuple[str, ...]) -> bool:
    """A dump may be compressed."""
    if client.type(key) != b"stream":
        return False
    return any(text in str(client.xrange(key)) for text in texts)


async def test_notes_of_flags_go_with_whom_they_are_about_and_who_wrote_them(
    store: MemoryStore, user: User, stranger: User, boss: User
) -> None:
    rows = [await sync_to_async(make_row)(person) for person in (user, stranger, stranger)]
    for row, by in zip(rows, ("boss", "ann", "boss"), strict=True):
        await sync_to_async(flags.flag)(row, by=by, note=SECRET)
    name = await erase_user(user=user, by="boss")
    kept = [(f.response_id, f.by, f.note) async for f in Flag.objects.order_by("at")]
    about, of_their_hand, others = [row.pk for row in rows]
    assert kept == [(about, "boss", ""), (of_their_hand, name, ""), (others, "boss", SECRET)]
    assert await Response.objects.acount() == 3
