"""Errors as RFC 9457 documents: every error under /api/ is one, whoever made it.

An error of the server's own has an id, which the person sees, the client is sent, and the log
line carries: who is told of it by one of them finds the other.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

from asgiref.sync import iscoroutinefunction, markcoroutinefunction
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.utils.translation import gettext_lazy as _

if TYPE_CHECKING:
    from django_stubs_ext import StrPromise

PROBLEM_TYPE: Final = "application/problem+json"
API_PREFIX: Final = "/api/"
ERROR_ID: Final = "X-Request-ID"
REQUEST_ID: Final = "chatapp.request_id"
"""Where an ASGI scope keeps it."""
_SANE: Final = re.compile(rb"[A-Za-z0-9][A-Za-z0-9._-]{7,63}")

_SENTENCES: Final = {
    400: _("The request is malformed."),
    403: _("This is not allowed."),
    404: _("There is nothing at this address, or it is not yours."),
    405: _("This address does not take that method."),
    413: _("The request is too large."),
    500: _("The server made a mistake. It was noted; answers that are being written go on."),
}


def problem_body(status: int, detail: str | StrPromise, **extra: Any) -> bytes:
    """One problem document; `extra` are members of its own."""
    title = HTTPStatus(status).phrase
    return json.dumps(
        {"type": "about:blank", "title": title, "status": status, "detail": str(detail), **extra}
    ).encode()


def problem(
    status: int, detail: str | StrPromise, *, headers: Mapping[str, str] | None = None, **extra: Any
) -> HttpResponse:
    body = problem_body(status, detail, **extra)
    return HttpResponse(body, status=status, content_type=PROBLEM_TYPE, headers=headers)


def error_id(request: HttpRequest) -> str:
    """Of what went wrong in this request: the request's own id, which the door has given it."""
    found: str | None = getattr(request, "error_id", None)
    if found is None:
        scope: Mapping[str, Any] = getattr(request, "scope", {})
        found = scope.get(REQUEST_ID) or new_request_id(b"")
        request.error_id = found  # type: ignore[attr-defined]
    return found


def new_request_id(asked: bytes) -> str:
    """The id that a proxy or a client gave its request, if it can be one; else a new one."""
    return asked.decode() if _SANE.fullmatch(asked) else uuid4().hex[:12]


def server_error(request: HttpRequest) -> HttpResponse:
    """The problem document for a mistake of our own."""
    made = error_id(request)
    return problem(500, _SENTENCES[500], headers={ERROR_ID: made}, error_id=made)


class WithErrorId(logging.Filter):
    """Gives what the log says of a failed request the id of it (`record.error`)."""

    def filter(self, record: logging.LogRecord) -> bool:
        request = getattr(record, "request", None)
        failed = record.levelno >= logging.ERROR and isinstance(request, HttpRequest)
        record.error = error_id(request) if failed and request else ""
        return True


class RefusalsInOneLine(logging.Filter):
    """What Django refuses, such as a strange host, is no mistake of ours, and anybody can cause it:
    a traceback each would fill the disk."""

    MAX_CHARS: Final = 200

    def filter(self, record: logging.LogRecord) -> bool:
        if record.name.startswith("django.security"):
            record.msg, record.args = record.getMessage()[: self.MAX_CHARS], ()
            record.exc_info = record.exc_text = None
        return True


class Problems:
    """Turns what Django itself answers under /api/ (404, 405, 400, 500) into a problem document."""

    sync_capable = True
    async_capable = True

    def __init__(self, get_response: Callable[[HttpRequest], Any]) -> None:
        self._get_response = get_response
        self._async = iscoroutinefunction(get_response)
        if self._async:
            markcoroutinefunction(self)

    def __call__(self, request: HttpRequest) -> HttpResponseBase | Awaitable[HttpResponseBase]:
        if self._async:
            return self._acall(request)
        return _named(request, _as_problem(request, self._get_response(request)))

    async def _acall(self, request: HttpRequest) -> HttpResponseBase:
        return _named(request, _as_problem(request, await self._get_response(request)))


def _named(request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
    response.headers[ERROR_ID] = error_id(request)
    return response


def _as_problem(request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
    status = response.status_code
    if status < 400 or not request.path_info.startswith(API_PREFIX):
        return response
    if response.headers.get("Content-Type", "").startswith(PROBLEM_TYPE):
        return response
    if status == 500:
        return server_error(request)
    headers = {name: response.headers[name] for name in ("Allow",) if name in response.headers}
    return problem(status, _SENTENCES.get(status, HTTPStatus(status).phrase), headers=headers)
