"""A row looks the same whether Django's ORM or a compiled statement wrote it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest
from django.db import IntegrityError
from django.forms.models import model_to_dict

from chatapp.models import Chat, Response
from chatapp.statements import insert, update

if TYPE_CHECKING:
    from chatapp.models import User

AT = datetime(2026, 1, 2, 3, 4, 5, 678901, UTC)

pytestmark = pytest.mark.django_db


def test_an_inserted_row_reads_as_it_was_made(user: User) -> None:
    chat = Chat(user=user, title="tea", model="fast", updated_at=AT)
    insert(chat)
    found = Chat.objects.get(pk=chat.pk)
    assert model_to_dict(found) == model_to_dict(chat)
    assert (found.pk, found.updated_at, found.created_at) == (chat.pk, AT, chat.created_at)
    assert not chat._state.adding


def test_an_inserted_row_obeys_the_constraints(user: User) -> None:
    row = Response(id="r", user=user, model="fast", request="{}", status="nonsense", created_at=AT)
    with pytest.raises(IntegrityError):
        insert(row)


def test_an_update_converts_values_and_keys_as_the_fields_do(user: User) -> None:
    chats = [
        Chat.objects.create(user=user, title=title, model="fast", updated_at=AT)
        for title in ("tea", "milk")
    ]
    later = AT.replace(year=2027)
    assert update(Chat, {"id": chats[0].pk}, {"updated_at": later, "title": "50% é 'tea'"}) == 1
    found = {chat.pk: chat for chat in Chat.objects.all()}
    assert (found[chats[0].pk].updated_at, found[chats[0].pk].title) == (later, "50% é 'tea'")
    assert (found[chats[1].pk].updated_at, found[chats[1].pk].title) == (AT, "milk")


def test_an_update_takes_the_key_as_the_database_returned_it(user: User) -> None:
    chat = Chat.objects.create(user=user, title="tea", model="fast", updated_at=AT)
    # SQLite keeps a UUID as its 32 digits: that is what a plain SELECT hands to an update.
    assert update(Chat, {"id": chat.pk.hex}, {"title": "milk"}) == 1


def test_an_update_says_that_nothing_matched(user: User) -> None:
    chat = Chat.objects.create(user=user, title="tea", model="fast", updated_at=AT)
    assert update(Chat, {"id": uuid4()}, {"title": "milk"}) == 0
    assert update(Chat, {"id": chat.pk, "model": "slow"}, {"title": "milk"}) == 0
    assert Chat.objects.get().title == "tea"
