"""Migrations that move what people have written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from django.utils import timezone

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def migrate(transactional_db: None) -> Iterator[Any]:
    """Takes the database to a migration of chatapp; the models as they are there."""

    def to(name: str) -> Any:
        executor = MigrationExecutor(connection)
        executor.migrate([("chatapp", name)])
        return executor.loader.project_state([("chatapp", name)]).apps

    yield to
    executor = MigrationExecutor(connection)
    executor.migrate(executor.loader.graph.leaf_nodes())


def test_a_list_of_messages_becomes_a_tree_in_which_tries_are_versions(migrate: Any) -> None:
    old = migrate("0006_chat_list")
    user = old.get_model("chatapp", "User").objects.create(username="ann")
    Chat, Message, Response = (  # noqa: N806 - as they were
        old.get_model("chatapp", name) for name in ("Chat", "Message", "Response")
    )
    now = timezone.now()
    chats = [Chat.objects.create(user=user, model="m", updated_at=now) for _ in range(2)]
    empty = Chat.objects.create(user=user, model="m", updated_at=now)
    before = None
    for n, text in enumerate(("one", "try 1", "try 2", "try 3", "two", "zwei"), start=1):
        role = "user" if text in ("one", "two") else "assistant"
        for chat in chats:
            response = None
            if role == "assistant":
                retry_of = None
                if text in ("try 2", "try 3"):
                    retry_of = Response.objects.get(pk=f"{chat.pk}-{n - 1}")
                response = Response.objects.create(
                    id=f"{chat.pk}-{n}", user=user, chat=chat, retry_of=retry_of, status="failed",
                    created_at=now, ended_at=now,
                )  # fmt: skip
            before = Message.objects.create(
                chat=chat, role=role, text=text, position=n, response=response
            )
    assert before is not None

    new = migrate("0007_branches")
    for chat in new.get_model("chatapp", "Chat").objects.exclude(pk=empty.pk):
        said = new.get_model("chatapp", "Message").objects.filter(chat=chat)
        below = {m.text: m.parent.text if m.parent else None for m in said}
        assert below == {
            **{"one": None, "try 1": "one", "try 2": "one", "try 3": "one"},
            **{"two": "try 3", "zwei": "two"},
        }
        assert chat.current.text == "zwei"
    assert new.get_model("chatapp", "Chat").objects.get(pk=empty.pk).current is None


def test_titles_that_turn_the_direction_of_reading_are_put_straight(migrate: Any) -> None:
    old = migrate("0024_never_replaced")
    user = old.get_model("chatapp", "User").objects.create(username="ann")
    now = timezone.now()
    titles = ["photo\u202egpj.exe", "\u2066", "عن\u200f.", "", "as it was"]
    chats = [
        old.get_model("chatapp", "Chat").objects.create(
            user=user, model="m", updated_at=now, changed_at=now, title=title
        )
        for title in titles
    ]
    new = migrate("0025_titles_undirected").get_model("chatapp", "Chat").objects
    found = [new.get(pk=chat.pk).title for chat in chats]
    assert found == ["photogpj.exe", "…", "عن\u200f.", "", "as it was"]
