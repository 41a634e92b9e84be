"""All that is kept of one person, and nothing of anybody else, as a zip file."""

from __future__ import annotations

import json
import zipfile
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from asgiref.sync import sync_to_async
from django.core.management import CommandError, call_command
from django.utils import timezone

from chatapp import audit
from chatapp.auth import make_key
from chatapp.finalize import Records
from chatapp.models import AuditEvent, Chat, Picture, User
from chatapp.services import export_user, personal
from tests.chatapp.conftest import make_row, talk
from tests.chatapp.test_finalize import outcome

if TYPE_CHECKING:
    from relay import MemoryStore


@sync_to_async
def asked(user: User, text: str) -> str:
    """In a chat of its own, with a picture; the id of the response."""
    chat = Chat.objects.create(user=user, model="fast", title=text, updated_at=timezone.now())
    question, answer = talk(chat, text, "")
    picture = Picture.objects.create(
        chat=chat, media_type="image/png", width=1, height=1, data=b"png"
    )
    question.pictured = [{"id": picture.pk, "width": 1, "height": 1, "bytes": 3}]
    question.save()
    answer.response = row = make_row(user, chat=chat)
    answer.save()
    audit.created(row, actor=user.username, detail={})
    return row.pk


async def unzipped(user: User) -> dict[str, str]:
    data = b"".join([part async for part in export_user(user=user, by="boss")])
    with zipfile.ZipFile(BytesIO(data)) as file:
        assert file.testzip() is None
        return {name: file.read(name).decode() for name in file.namelist()}


async def test_everything_of_one_person_and_nothing_of_others(
    store: MemoryStore, user: User, stranger: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(personal, "ROWS", 1)
    user.email = "ann@example.org"
    await user.asave()
    secret = await sync_to_async(make_key)(user, "script")
    mine = [await asked(user, f"mine {n}") for n in range(2)]
    await asked(stranger, "theirs")
    await Records().finalize(outcome(mine[0]))
    files = await unzipped(user)
    chats = [name for name in files if name.startswith("chats/")]
    assert set(files) == {"account.json", "answers.jsonl", "trail.jsonl", *chats}
    assert len(chats) == 2
    account = json.loads(files["account.json"])
    assert (account["username"], account["email"]) == ("ann", "ann@example.org")
    assert [key["name"] for key in account["api_keys"]] == ["script"]
    answers = lines(files["answers.jsonl"])
    assert {one["id"] for one in answers} == set(mine)
    (ended,) = [one for one in answers if one["id"] == mine[0]]
    assert ended["answer"]["text"] == "tea"
    assert ended["asked"]["messages"][0]["content"] == "hello"
    assert ended["output_tokens"] == 3
    actions = [entry["action"] for entry in lines(files["trail.jsonl"])]
    assert actions == ["created", "created", "ended", "person exported"]
    whole = "".join(files.values())
    assert "data:image/png;base64" in whole
    assert "mine 0" in whole
    for other in ("theirs", "bob", secret, "pbkdf2", user.password):
        assert other not in whole
    entry = await AuditEvent.objects.aget(action="person exported")
    assert (entry.username, entry.actor) == ("ann", "boss")


async def test_somebody_without_anything_gets_a_whole_file(store: MemoryStore, user: User) -> None:
    files = await unzipped(user)
    assert files["answers.jsonl"] == ""


def lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_the_command_writes_a_file_that_is_nobody_elses(
    transactional_db: None, user: User, tmp_path: Path
) -> None:
    path = tmp_path / "ann.zip"
    call_command("export_user", "ann", str(path))
    assert zipfile.ZipFile(path).testzip() is None
    assert path.stat().st_mode & 0o077 == 0
    with pytest.raises(CommandError, match="File exists"):
        call_command("export_user", "ann", str(path))
    with pytest.raises(CommandError, match="no user"):
        call_command("export_user", "nobody", str(tmp_path / "nobody.zip"))
    assert not (tmp_path / "nobody.zip").exists()
