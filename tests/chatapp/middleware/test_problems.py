"""Every error under /api/ is a problem document, whoever made it."""

from __future__ import annotations

import json

import pytest
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed
from django.test import RequestFactory

from chatapp.middleware.problems import PROBLEM_TYPE, Problems, problem, problem_body

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
