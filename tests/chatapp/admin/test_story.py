"""The page of one answer: its story in order, and its texts only for whoever the trail names."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from chatapp import audit
from chatapp.admin import page_of
from chatapp.models import Response, Visit
from chatapp.services import story
from relay import Story
from tests.chatapp.admin.conftest import ANSWER, QUESTION, reads
from tests.chatapp.conftest import make_row

if TYPE_CHECKING:
    from collections.abc import Callable

    from django.test import Client

    from chatapp.models import User


def page(browser: Client, row: Response) -> str:
    reply = browser.get(page_of(row.pk))
    assert reply.status_code == 200
    return reply.content.decode()


def test_an_auditor_reads_at_once_and_the_trail_says_so(
    staff: Callable[[str], Client], answered: Response
) -> None:
    text = page(staff("auditor"), answered)
    assert ANSWER in text
    assert QUESTION in text
    assert reads() == [("auditor-person", answered.pk)]


def test_support_sees_figures_until_they_ask(
    staff: Callable[[str], Client], answered: Response
) -> None:
    browser = staff("support")
    text = page(browser, answered)
    assert "Show text" in text
    assert ANSWER not in text
    assert QUESTION not in text
    assert reads() == []
    url = f"/admin/chatapp/response/{answered.pk}/text/"
    assert browser.get(url).status_code == 405
    shown = browser.post(url).content.decode()
    assert ANSWER in shown
    assert QUESTION in shown
    assert reads() == [("support-person", answered.pk)]
    assert "Text read by support-person" in page(browser, answered)


def test_nothing_is_shown_that_could_not_be_noted(
    staff: Callable[[str], Client], answered: Response, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*args: object, **kwargs: object) -> None:
        raise RuntimeError("no trail")

    browser = staff("auditor")
    monkeypatch.setattr(audit, "text_read", fails)
    browser.raise_request_exception = False
    reply = browser.get(page_of(answered.pk))
    assert reply.status_code == 500
    assert ANSWER not in reply.content.decode()


@pytest.mark.parametrize(("group", "stops"), [("auditor", False), ("support", True)])
def test_who_may_stop_is_offered_it(
    staff: Callable[[str], Client], row: Response, group: str, stops: bool
) -> None:
    browser = staff(group)
    assert ("Stop this answer" in page(browser, row)) is stops
    if not stops:
        assert browser.post(f"/admin/chatapp/response/{row.pk}/stop/").status_code == 403


def test_a_story_is_told_in_order(user: User) -> None:
    asked_at = timezone.now() - timedelta(minutes=1)
    epoch = int(asked_at.timestamp() * 1000) + 1000

    def after(seconds: float) -> str:
        return (asked_at + timedelta(seconds=seconds)).isoformat()

    told = Story.from_json(
        f'{{"claims": [[{epoch}, "w1"], [{epoch + 9000}, "w2"], [{epoch + 40000}, "w3"]],'
        f'"runs": [{{"seq": 2, "attempt": 1, "epoch": {epoch}, "at": "{after(1)}",'
        f' "upstream_model": "m"}},'
        f'{{"seq": 4, "attempt": 2, "epoch": {epoch + 9000}, "at": "{after(10)}",'
        ' "upstream_model": "m"}],'
        '"said": [{"seq": 3, "code": "retrying"}, {"seq": 5, "code": "fallback", "model": "b"}],'
        '"points": [[0, 0], [100, 2], [1500, 4]], "longest_gap": [500, 3000]}'
    )
    row = make_row(
        user,
        status="interrupted",
        reason="worker_lost",
        story=told.to_json().decode(),
        created_at=asked_at,
        started_at=asked_at + timedelta(seconds=10),
        first_token_at=asked_at + timedelta(seconds=10.5),
        stop_requested_at=asked_at + timedelta(seconds=30),
        stop_by="root",
        stop_reason="admin",
        ended_at=asked_at + timedelta(seconds=42),
    )
    Visit.objects.create(
        response_id=row.pk,
        viewer="abcdef0123456789",
        came_at=asked_at + timedelta(seconds=2),
        left_at=asked_at + timedelta(seconds=20),
        from_seq=0,
        to_seq=7,
    )
    steps = story.steps_of(row)
    assert [step.what for step in steps] == [
        "Asked by ann of fast",
        "Queued",
        "Claimed by w1",
        "Attempt 1 begun",
        "Notice: retrying",
        "Viewer abcdef01 came",
        "Claimed by w2",
        "Attempt 2 begun",
        "Notice: fallback",
        "First token",
        "The longest pause began",
        "Viewer abcdef01 went",
        "Stop by root",
        "Taken over by w3, to be ended",
        "Ended: interrupted",
    ]
    assert [step.after_ms for step in steps if "First" in step.what] == [10500]
    assert next(s.detail for s in steps if s.what.endswith("went")) == "handed up to event 7"


def test_a_page_has_a_chart_and_no_inline_script_or_style(
    staff: Callable[[str], Client], answered: Response
) -> None:
    Response.objects.update(
        story='{"points": [[0, 0], [100, 2], [1500, 4]], "longest_gap": [100, 1400]}'
    )
    text = page(staff("support"), answered)
    assert '<polyline class="chart-line series-0"' in text
    assert "chart-shade" in text
    assert not re.search(r"\sstyle=|<style|\son[a-z]+=|<script(?![^>]*src=)[^>]*>[^<]", text)


def test_what_a_later_version_recorded_breaks_no_page(
    staff: Callable[[str], Client], answered: Response
) -> None:
    Response.objects.update(story='{"points": "new"}', request="{}")
    assert "Nobody noted when its tokens came." in page(staff("support"), answered)


def test_a_page_asks_the_same_few_questions_however_long_the_story(
    staff: Callable[[str], Client], answered: Response, user: User
) -> None:
    browser, now = staff("auditor"), timezone.now()

    def asked() -> int:
        with CaptureQueriesContext(
            connection,
        ) as queries:
            page(browser, answered)
        return len(queries)

    before = asked()
    for n in range(20):
        make_row(user)
        Visit.objects.create(
            response_id=answered.pk, viewer=str(n), came_at=now, left_at=now, from_seq=0, to_seq=1
        )
    assert asked() == before <= 14
