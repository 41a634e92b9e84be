"""The list of answers: found by every filter and by words, exported row by row, flagged."""

from __future__ import annotations

import csv
import io
import json
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from django.db import connection
from django.test import AsyncClient
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from chatapp.models import AuditEvent, Chat, Flag, Response, User
from chatapp.services import searching, table
from tests.chatapp.admin.conftest import ANSWER, QUESTION
from tests.chatapp.conftest import make_row, talk

if TYPE_CHECKING:
    from collections.abc import Callable

    from django.test import Client

LIST = "/admin/chatapp/response/"


@pytest.fixture
def rows(user: User, stranger: User, answered: Response) -> dict[str, Response]:
    now = timezone.now()
    ended: dict[str, Any] = {"ended_at": now, "answered_by": "fast"}
    found = {
        "tea": answered,
        "slow": make_row(user, status="completed", first_token_ms=9000, **ended),
        "zombie": make_row(user, status="cancelled", reason="user", zombie_tokens=3, **ended),
        "failed": make_row(
            stranger, model="other", status="failed", reason="stalled", ended_at=now
        ),
        "old": make_row(stranger, created_at=now - timedelta(days=40)),
    }
    Flag.objects.create(response=found["old"], note="look at it", by="root", at=now)
    return found


def listed(browser: Client, rows: dict[str, Response], query: str) -> set[str]:
    reply = browser.get(f"{LIST}?{query}")
    assert reply.status_code == 200, query
    names = {row.pk: name for name, row in rows.items()}
    return {names[row.pk] for row in reply.context["cl"].result_list}


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("status__exact=failed", {"failed"}),
        ("reason=stalled", {"failed"}),
        ("model=other", {"failed"}),
        ("answered_by=fast", {"slow", "zombie"}),
        ("provider=127.0.0.1:9", {"slow", "zombie"}),
        ("slow=yes", {"slow"}),
        ("zombie=yes", {"zombie"}),
        ("flagged=yes", {"old"}),
        ("q=bob", {"failed", "old"}),
        ("q=bob+failed", {"failed"}),
        ("q=bob+user", set()),
        ("q=steeped", {"tea"}),
        ("q=CUP", {"tea"}),
        ("q=cup+bob", set()),
        ("q=cup+ann+completed", {"tea"}),
        ('q="of+tea"', {"tea"}),
        ('q="bob"', set()),
        ("q=nobodysaidthis", set()),
        ('q="unpaired', set()),
    ],
)
def test_answers_are_found(
    staff: Callable[[str], Client], rows: dict[str, Response], query: str, found: set[str]
) -> None:
    assert listed(staff("auditor"), rows, query) == found


def test_an_id_is_found_by_its_beginning(
    staff: Callable[[str], Client], rows: dict[str, Response]
) -> None:
    browser, pk = staff("support"), rows["tea"].pk
    assert listed(browser, rows, f"q={pk}") == {"tea"}
    assert listed(browser, rows, f"q={pk[:20]}") == {"tea"}


@pytest.mark.parametrize("called", ["Bob", "BOB", "Bob@Example.org"])
def test_people_are_found_by_what_a_complaint_calls_them(
    staff: Callable[[str], Client], rows: dict[str, Response], called: str
) -> None:
    """A name or an address that is written otherwise is no word of a text."""
    User.objects.filter(username="bob").update(email="bob@example.org")
    assert listed(staff("support"), rows, f"q={called}") == {"failed", "old"}
    assert not AuditEvent.objects.filter(action="text searched").exists()


def test_looking_into_texts_is_noted_and_not_for_everybody(
    staff: Callable[[str], Client], rows: dict[str, Response]
) -> None:
    support = staff("support")
    assert listed(support, rows, "q=cup") == set()
    assert listed(support, rows, "q=bob") == {"failed", "old"}
    assert not AuditEvent.objects.filter(action="text searched").exists()
    listed(staff("auditor"), rows, "q=cup")
    entry = AuditEvent.objects.get(action="text searched")
    assert (entry.actor, entry.detail) == ("auditor-person", {"found": 1})


def test_common_words_are_looked_for_in_the_newest_answers(
    staff: Callable[[str], Client],
    rows: dict[str, Response],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(searching, "MOST_HITS", 0)
    reply = staff("auditor").get(f"{LIST}?q=steeped")
    assert [row.pk for row in reply.context["cl"].result_list] == [rows["tea"].pk]
    assert "in very many texts" in reply.content.decode()
    monkeypatch.setattr(searching, "NEWEST", 1)
    assert listed(staff("admin"), rows, "q=steeped+failed") == set()


def test_the_list_asks_the_same_few_questions_however_long_it_is(
    staff: Callable[[str], Client], rows: dict[str, Response], user: User
) -> None:
    browser = staff("auditor")

    def asked(query: str) -> int:
        with CaptureQueriesContext(connection) as queries:
            assert browser.get(f"{LIST}?{query}").status_code == 200
        texts = [one["sql"] for one in queries if '"chatapp_response"."fold"' in one["sql"]]
        assert not texts
        return len(queries)

    queries = ("", "slow=yes", "q=ann", "q=tea")
    before = [asked(query) for query in queries]
    for _ in range(30):
        make_row(user, first_token_ms=9000)
    assert [asked(query) for query in queries] == before
    assert max(before) <= 16


def test_counting_stops(
    staff: Callable[[str], Client], rows: dict[str, Response], monkeypatch: pytest.MonkeyPatch
) -> None:
    from chatapp.admin import filters

    monkeypatch.setattr(filters, "MOST_COUNTED", 2)
    monkeypatch.setattr(filters.BoundedPaginator, "most", 2)
    reply = staff("support").get(LIST)
    assert reply.context["cl"].result_count == 2
    assert "Counting stops at 2" in reply.content.decode()


async def test_an_export_is_the_list_as_a_file(
    staff: Callable[[str], Client], rows: dict[str, Response], monkeypatch: pytest.MonkeyPatch
) -> None:
    from asgiref.sync import sync_to_async

    monkeypatch.setattr(table, "PAGE", 2)
    await sync_to_async(staff)("auditor")
    client = AsyncClient()
    await client.aforce_login(await User.objects.aget(username="auditor-person"))

    async def export(query: str, **data: str) -> tuple[Any, str]:
        reply: Any = await client.post(f"{LIST}export/?{query}", data)
        assert reply.status_code == 200
        pieces = [piece async for piece in reply.streaming_content]
        return reply, b"".join(pieces).decode()

    reply, text = await export("", kind="csv")
    lines = list(csv.DictReader(io.StringIO(text)))
    assert {line["id"] for line in lines} == {row.pk for row in rows.values()}
    assert [line["created_at"] for line in lines] == sorted(
        (line["created_at"] for line in lines), reverse=True
    )
    assert reply["X-Rows"] == "5"
    assert ANSWER not in text
    _, text = await export("q=bob", kind="jsonl")
    assert {json.loads(line)["flag"] for line in text.splitlines()} == {None, "look at it"}
    _, text = await export("status__exact=completed", kind="jsonl", text="1")
    tea = next(line for line in map(json.loads, text.splitlines()) if line["answer"])
    assert (tea["asked"], tea["answer"]) == (QUESTION, ANSWER)
    entries = AuditEvent.objects.filter(action__endswith="exported").order_by("id")
    told = [(e.actor, e.action, e.detail["rows"]) async for e in entries]
    assert told == [
        ("auditor-person", "figures exported", 5),
        ("auditor-person", "figures exported", 2),
        ("auditor-person", "texts exported", 2),
    ]


def test_support_exports_no_texts_since_each_would_have_to_be_asked_for(
    staff: Callable[[str], Client], rows: dict[str, Response]
) -> None:
    """All of them were one press and one line of the trail away."""
    browser = staff("support")
    assert browser.post(f"{LIST}export/", {"kind": "csv"}).status_code == 200
    assert browser.post(f"{LIST}export/", {"kind": "csv", "text": "1"}).status_code == 403
    assert "with texts" not in browser.get(LIST).content.decode()
    assert "with texts" in staff("auditor").get(LIST).content.decode()


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@x", "\tx", "\rx", "\n=1", "\uff1d1"])
def test_a_cell_is_no_formula(text: str) -> None:
    assert table.guarded(text) == f"'{text}"
    assert table.guarded("tea =1") == "tea =1"
    assert table.guarded(-1) == "-1"


def test_a_flag_is_set_changed_and_removed_by_whoever_may(
    staff: Callable[[str], Client], answered: Response
) -> None:
    support, url = staff("support"), f"{LIST}{answered.pk}/flag/"
    assert staff("auditor").post(url, {"note": "x"}).status_code == 403
    support.post(url, {"note": "odd"})
    support.post(url, {"note": "very odd"})
    flag = Flag.objects.get()
    assert (flag.note, flag.by) == ("very odd", "support-person")
    assert "very odd" in support.get(f"{LIST}?flagged=yes").content.decode()
    for _ in range(2):
        support.post(url, {"remove": "1"})
    assert not Flag.objects.exists()
    actions = AuditEvent.objects.filter(action__contains="flag").order_by("id")
    assert [entry.action for entry in actions] == ["flagged", "flagged", "flag removed"]


def test_questions_below_others_are_found_once(
    staff: Callable[[str], Client], user: User, chat: Chat
) -> None:
    row = make_row(user, chat=chat)
    _, answer = talk(chat, "steep it", "steep it well")
    answer.response = row
    answer.save()
    assert listed(staff("auditor"), {"one": row}, "q=steep") == {"one"}
