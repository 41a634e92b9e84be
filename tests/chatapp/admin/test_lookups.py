"""An address narrows a list by what its filters offer, and by nothing else that a row has."""

from __future__ import annotations

import re
from datetime import timedelta
from html import unescape
from typing import TYPE_CHECKING

import pytest
from django.utils import timezone

from chatapp.admin import page_of
from chatapp.models import Response
from tests.chatapp.admin.conftest import ANSWER, reads

if TYPE_CHECKING:
    from collections.abc import Callable

    from django.test import Client

WORD = ANSWER.split()[-1]


@pytest.mark.parametrize("group", ["support", "auditor", "admin"])
@pytest.mark.parametrize(
    "lookup",
    [
        f"response/?fold__icontains={WORD}",
        f"response/?request__contains={WORD}",
        "response/?metadata__startswith={",
        "response/?story__contains=a",
        "response/?user__password__startswith=p",
        "response/?chat__title__contains=a",
        "chat/?title__icontains=a",
        "chat/?system_prompt__contains=a",
        "chat/?messages__text__contains=a",
        "apikey/?digest__startswith=a",
        "user/?password__startswith=p",
        "auditevent/?detail__contains=a",
    ],
)
def test_no_address_guesses_at_what_a_list_does_not_show(
    staff: Callable[[str], Client], answered: Response, lookup: str, group: str
) -> None:
    """How many rows there are would tell a text letter by letter, and the trail nothing of it."""
    browser = staff(group)
    model, _, query = lookup.partition("?")
    assert browser.get(f"/admin/chatapp/{lookup}").status_code == 400
    if model == "response/":
        assert browser.post(f"/admin/chatapp/response/export/?{query}").status_code == 400
    assert reads() == []


@pytest.mark.parametrize(
    "lookup",
    [
        "response/?status__exact=completed",
        "response/?created_at__gte=2026-01-01+00%3A00%3A00%2B00%3A00",
        "response/?model=fast&answered_by=fast&reason=user&provider=x&slow=yes&zombie=yes",
        "response/?user__id__exact=1",
        "auditevent/?response_id=resp_1",
        "auditevent/?action=ended",
        "chat/?model=fast&updated_at__lt=2026-01-01+00%3A00%3A00%2B00%3A00",
        "apikey/?revoked_at__isnull=True",
        "user/?plan__id__exact=1&is_staff__exact=1",
    ],
)
def test_what_filters_and_links_lead_to_is_answered(
    staff: Callable[[str], Client], answered: Response, lookup: str
) -> None:
    assert staff("auditor").get(f"/admin/chatapp/{lookup}").status_code == 200


@pytest.mark.parametrize("query", ["created_at__gte=yesterday", "p=99999", "p=x", "status__exact="])
def test_an_export_of_an_odd_address_is_told_and_does_not_fail(
    staff: Callable[[str], Client], answered: Response, query: str
) -> None:
    reply = staff("auditor").post(f"/admin/chatapp/response/export/?{query}")
    assert reply.status_code in (200, 302, 400)


def test_yesterday_is_a_choice_and_counting_all_is_none(
    staff: Callable[[str], Client], answered: Response
) -> None:
    browser = staff("auditor")
    page = browser.get("/admin/chatapp/response/").content.decode()
    assert "Show counts" not in page
    day = re.search(r'href="([^"]+)"[^>]*>\s*Yesterday<', page)
    assert day is not None
    address = f"/admin/chatapp/response/{unescape(day[1])}"
    # Links of a list carry its filters behind the page.
    for asked_at, there in ((timezone.now(), False), (timezone.now() - timedelta(days=1), True)):
        Response.objects.filter(pk=answered.pk).update(created_at=asked_at)
        assert (page_of(answered.pk) in browser.get(address).content.decode()) is there


def test_what_is_no_report_of_the_doctors_page_is_told_so(staff: Callable[[str], Client]) -> None:
    flow = {"status": 200, "http_version": "1.1", "headers": {}, "gap_ms": 50}
    browser = staff("admin")
    tabs = {"opened": 7, "waited": 1}
    for url, status in (("http://[", 400), ("http://a.example", 200)):
        report = {"heartbeat_s": 15, "public": {"url": url, "flow": flow, "tabs": tabs}}
        reply = browser.post("/admin/doctor/", report, content_type="application/json")
        assert reply.status_code == status, url
