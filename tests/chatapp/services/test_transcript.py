"""Where the pages of a long chat begin and end: never within an answer that was gone on with."""

from __future__ import annotations

from itertools import pairwise

import pytest
from asgiref.sync import sync_to_async

from chatapp import services
from chatapp.models import Chat, Message
from chatapp.services.transcript import TURNS

PAIR = ["user", "assistant"]
ONE_ANSWER = ["user", "assistant", "assistant", "assistant"]


def say(chat: Chat, *roles: str) -> list[Message]:
    rows: list[Message] = []
    for position, role in enumerate(roles, start=1):
        parent = rows[-1] if rows else None
        row = Message.objects.create(
            chat=chat, role=role, text=str(position), position=position, parent=parent
        )
        rows.append(row)
    chat.current = rows[-1]
    chat.save()
    return rows


def within_an_answer(first: Message, then: Message) -> bool:
    return first.role == then.role == "assistant"


@pytest.mark.parametrize("after", range(TURNS - 4, TURNS + 1))
async def test_no_page_begins_within_an_answer(chat: Chat, after: int) -> None:
    rows = await sync_to_async(say)(chat, *PAIR, *ONE_ANSWER, *(PAIR * TURNS)[:after])
    window = await services.window(chat=chat)
    seen = window.messages
    while window.older is not None:
        window = await services.window(chat=chat, before=window.older)
        assert not within_an_answer(window.messages[-1], seen[0])
        seen = window.messages + seen
    assert [message.pk for message in seen] == [row.pk for row in rows], "each once"


@pytest.mark.parametrize("at", range(1, 6))
async def test_no_page_around_a_place_ends_within_an_answer(chat: Chat, at: int) -> None:
    roles = [*(PAIR * (TURNS // 2))[: TURNS // 2 - 2], *ONE_ANSWER, *PAIR * 3]
    rows = await sync_to_async(say)(chat, *roles)
    window = await services.window(chat=chat, at=at)
    assert window.newer
    assert window.messages == rows[: len(window.messages)], "from the beginning, and in order"
    assert not within_an_answer(*rows[len(window.messages) - 1 : len(window.messages) + 1])
    assert any(within_an_answer(*two) for two in pairwise(rows))
