"""A request that began before an erase and ends behind it leaves nothing: an erase is final."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from allauth.account.models import EmailAddress
from asgiref.sync import sync_to_async
from django.core.exceptions import PermissionDenied
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from chatapp.auth import make_key
from chatapp.models import ApiKey, Chat, Flag, Response, User
from chatapp.models.people import is_erased
from chatapp.services import (
    Question,
    create_response,
    erase_user,
    erasing,
    flags,
    limits,
    send_message,
    start_chat,
)
from chatapp.services.errors import Erased
from tests.chatapp.conftest import make_row
from tests.chatapp.services.test_erasing import SECRET, rows_with

if TYPE_CHECKING:
    from relay import MemoryStore


@pytest.fixture
def erased_meanwhile(monkeypatch: pytest.MonkeyPatch, user: User) -> None:
    """Who asks has been read and may; then they are erased, and only then it is written."""
    look = limits.usable_model

    async def then_erased(*args: Any) -> Any:
        found = await look(*args)
        await erase_user(user=await User.objects.aget(pk=user.pk), by="")
        return found

    monkeypatch.setattr(limits, "usable_model", then_erased)


async def test_a_question_that_is_written_behind_an_erase_is_refused(
    store: MemoryStore, user: User, chat: Chat, erased_meanwhile: None
) -> None:
    with pytest.raises(Erased, match="Nothing was saved"):
        await send_message(user=user, chat=chat, text=SECRET)
    question = Question(model="fast", messages=[{"role": "user", "content": SECRET}])
    with pytest.raises(Erased):
        await create_response(user=user, question=question)
    assert not await Response.objects.aexists()
    assert await sync_to_async(rows_with)(SECRET) == []


async def test_a_chat_that_is_begun_behind_an_erase_is_refused(
    store: MemoryStore, user: User
) -> None:
    await erase_user(user=await User.objects.aget(pk=user.pk), by="")
    with pytest.raises(Erased):
        await start_chat(user=user, title=SECRET, system_prompt=SECRET)
    assert not await Chat.objects.aexists()


async def test_a_person_that_was_read_before_an_erase_does_not_come_back(
    store: MemoryStore, user: User
) -> None:
    user.first_name, user.email = SECRET, f"{SECRET}@example.org"
    await erase_user(user=await User.objects.aget(pk=user.pk), by="")
    with pytest.raises(PermissionDenied):
        await sync_to_async(user.save)()
    with pytest.raises(PermissionDenied):
        await sync_to_async(user.save)(update_fields=["email"])
    with pytest.raises(PermissionDenied):
        await EmailAddress.objects.acreate(user=user, email=user.email)
    with pytest.raises(PermissionDenied):
        await sync_to_async(make_key)(user, SECRET)
    assert await sync_to_async(rows_with)(SECRET) == []
    row = await User.objects.aget(pk=user.pk)
    assert (row.username, row.is_active) == (f"erased-{user.pk}", False)


async def test_what_comes_while_an_erase_is_under_way_goes_with_it(
    store: MemoryStore, user: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    look = erasing._erase_some

    async def then_it_comes(person: User, by: str) -> tuple[bool, list[str]]:
        await sync_to_async(make_key)(user, SECRET)
        await EmailAddress.objects.aget_or_create(user=user, email=f"{SECRET}@example.org")
        return await look(person, by)

    monkeypatch.setattr(erasing, "_erase_some", then_it_comes)
    await erase_user(user=await User.objects.aget(pk=user.pk), by="")
    assert not await ApiKey.objects.aexists()
    assert await sync_to_async(rows_with)(SECRET) == []


async def test_a_late_note_tells_nothing_of_who_was_erased(
    store: MemoryStore, user: User, stranger: User
) -> None:
    row, other = [await sync_to_async(make_row)(one) for one in (user, stranger)]
    await erase_user(user=await User.objects.aget(pk=user.pk), by="")
    await sync_to_async(flags.flag)(row, by="bob", note=SECRET)
    assert (await Flag.objects.aget()).note == ""
    with pytest.raises(PermissionDenied):
        await sync_to_async(flags.flag)(other, by="ann", note=SECRET)
    assert await Flag.objects.acount() == 1


def test_who_writes_holds_the_person_until_the_commit(user: User) -> None:
    """The look alone would not do: an erase could begin and end between it and the commit."""
    with transaction.atomic(), CaptureQueriesContext(connection) as queries:
        assert not is_erased(user.pk)
    assert queries[0]["sql"].endswith("FOR KEY SHARE") == (connection.vendor == "postgresql")
    assert is_erased(user.pk + 1)
