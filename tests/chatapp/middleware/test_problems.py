"""Every error under /api/ is a problem document, whoever made it."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest
from django.core.exceptions import DisallowedHost
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed
from django.test import RequestFactory

from chatapp.middleware.problems import (
    PROBLEM_TYPE,
    Problems,
    RefusalsInOneLine,
    problem,
    problem_body,
)
from chatapp.settings import LOGGING

ASK = RequestFactory()


def answer(path: str, response: HttpResponse) -> HttpResponse:
    def view(request: HttpRequest) -> HttpResponse:
        return response

    answered = Problems(view)(ASK.get(path))
    assert isinstance(answered, HttpResponse)
    return answered


def test_a_problem_says_what_and_why() -> None:
    assert json.loads(problem_body(404, "Not here.", id=3)) == {
        "type": "about:blank",
        "title": "Not Found",
        "status": 404,
        "detail": "Not here.",
        "id": 3,
    }


@pytest.mark.parametrize("status", [400, 403, 404, 405, 413, 418, 500, 503])
def test_an_error_page_under_api_becomes_a_problem(status: int) -> None:
    answered = answer("/api/x", HttpResponse("<h1>secret</h1>", status=status))
    assert (answered.status_code, answered["Content-Type"]) == (status, PROBLEM_TYPE)
    assert "secret" not in answered.content.decode()
    assert json.loads(answered.content)["detail"]


def test_an_error_page_elsewhere_stays_a_page() -> None:
    page = HttpResponse("<h1>Not here</h1>", status=404)
    assert answer("/apis", page) is page


def test_what_succeeds_and_what_is_a_problem_already_stay_as_they_are() -> None:
    for response in (HttpResponse("fine"), problem(409, "Busy.", id=1)):
        assert answer("/api/x", response) is response


def test_the_allowed_methods_are_still_named() -> None:
    answered = answer("/api/x", HttpResponseNotAllowed(["GET", "POST"]))
    assert answered["Allow"] == "GET, POST"


def test_a_strange_host_is_one_short_line_of_the_log() -> None:
    """Anybody can ask so, as often as they like."""
    handlers: Any = LOGGING["handlers"]
    assert "line" in handlers["stderr"]["filters"]
    error = DisallowedHost("evil." * 2000 + "%s")
    name, fault = "django.security.DisallowedHost", (type(error), error, error.__traceback__)
    record = logging.LogRecord(name, logging.ERROR, "", 1, str(error), None, fault)
    assert RefusalsInOneLine().filter(record)
    line = logging.Formatter().format(record)
    assert line.startswith("evil.evil.")
    assert len(line) == RefusalsInOneLine.MAX_CHARS
    assert "\n" not in line


def test_the_traceback_of_a_mistake_of_ours_stays() -> None:
    fault = (ValueError, ValueError("ours"), None)
    record = logging.LogRecord("django.request", logging.ERROR, "", 1, "text", None, fault)
    assert RefusalsInOneLine().filter(record)
    assert record.exc_info == fault
