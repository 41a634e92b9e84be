"""The dashboard of the admin, over what the sweep has kept."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from chatapp.services import figures
from tests.chatapp.conftest import make_row

if TYPE_CHECKING:
    from collections.abc import Callable

    from django.test import Client

    from chatapp.models import User


@pytest.mark.parametrize("name", ["hour", "day", "week", "month", "nonsense"])
def test_each_range_has_charts_tables_and_few_statements(
    staff: Callable[[str], Client], user: User, name: str
) -> None:
    now = timezone.now()
    for n in range(30):
        make_row(
            user,
            status="completed" if n % 3 else "failed",
            reason="" if n % 3 else "rate_limit",
            answered_by=f"model{n % 7}",
            ended_at=now - timedelta(seconds=n),
            first_token_ms=300,
            writing_ms=900,
            output_tokens=20,
            zombie_tokens=n % 2,
            cost=1,
        )
    figures.bring_up_to_date(now)
    browser = staff("support")
    with CaptureQueriesContext(connection) as queries:
        page = browser.get(f"/admin/dashboard/?range={name}").content.decode()
    assert len(queries) <= (46 if name == "hour" else 10)
    assert page.count('<figure class="chart"') == 6
    assert "rate_limit" in page
    assert "others" in page  # more models than a chart can tell apart
    assert "ann" in page
    one = browser.get("/admin/dashboard/?range=day&model=model1").content.decode()
    assert "of <strong>model1</strong>" in one


def test_a_new_machine_says_that_there_is_nothing(staff: Callable[[str], Client]) -> None:
    browser = staff("auditor")
    assert "No answer ended in this time." in browser.get("/admin/dashboard/").content.decode()
    assert "/admin/dashboard/" in browser.get("/admin/").content.decode()
