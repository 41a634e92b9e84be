"""Every way a call can fail, and the problem document that says so."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from django.core.exceptions import SuspiciousOperation
from django.db import InterfaceError, OperationalError
from django.http import Http404, HttpRequest, HttpResponse
from django.utils.translation import gettext as _
from django.views.decorators.csrf import csrf_exempt
from ninja.errors import AuthenticationError, HttpError, ValidationError

from chatapp.auth import CsrfRefused
from chatapp.middleware.admission import TooMany
from chatapp.middleware.problems import problem, server_error
from chatapp.services import Refused
from relay import COUNTERS, RecordUnavailable, StoreUnavailable

if TYPE_CHECKING:
    from ninja import NinjaAPI

logger = logging.getLogger(__name__)

AWAY = (StoreUnavailable, RecordUnavailable, OperationalError, InterfaceError)
RETRY_AFTER_S = 5


def handle_failures(api: NinjaAPI) -> None:
    """Register the handlers below."""
    # Ninja types a handler's second argument as "exception or its class"; it is the exception.
    handle: Any = api.add_exception_handler
    handle(Refused, refused)
    handle(ValidationError, invalid)
    handle(AuthenticationError, unknown_caller)
    handle(CsrfRefused, without_token)
    handle(TooMany, busy)
    handle(Http404, missing)
    handle(HttpError, malformed)
    handle(SuspiciousOperation, suspicious)
    for kind in AWAY:
        handle(kind, away)
    handle(Exception, crashed)


def refused(request: HttpRequest, exc: Refused) -> HttpResponse:
    headers = {} if exc.retry_after_s is None else {"Retry-After": str(exc.retry_after_s)}
    return problem(exc.status, str(exc), headers=headers, **exc.extra)


def invalid(request: HttpRequest, exc: ValidationError) -> HttpResponse:
    errors = [_error(error) for error in exc.errors]
    first = errors[0] if errors else {"field": "", "message": "it is not what is expected"}
    return problem(422, f"{first['field']}: {first['message']}", errors=errors)


def _error(error: dict[str, Any]) -> dict[str, str]:
    # Ninja names where it looked and which argument: ("body", "data", "input", 0, "role").
    where = [str(part) for part in error["loc"]]
    return {"field": ".".join(where[2:] or where), "message": str(error["msg"])}


def unknown_caller(request: HttpRequest, exc: AuthenticationError) -> HttpResponse:
    headers = {"WWW-Authenticate": "Bearer"}
    return problem(401, _("Sign in, or send a valid bearer key."), headers=headers)


def without_token(request: HttpRequest, exc: CsrfRefused) -> HttpResponse:
    return problem(403, _("The request does not prove where it comes from: {why}").format(why=exc))


def busy(request: HttpRequest, exc: TooMany) -> HttpResponse:
    return problem(429, str(exc), headers={"Retry-After": str(RETRY_AFTER_S)})


def missing(request: HttpRequest, exc: Http404) -> HttpResponse:
    return problem(404, _("There is nothing at this address, or it is not yours."))


@csrf_exempt
def no_such_address(request: HttpRequest) -> HttpResponse:
    """For urls.py: whatever else is asked for under /api/, without rendering a page first."""
    return problem(404, _("There is nothing at this address."))


def malformed(request: HttpRequest, exc: HttpError) -> HttpResponse:
    return problem(exc.status_code, str(exc))


def suspicious(request: HttpRequest, exc: SuspiciousOperation) -> HttpResponse:
    """What Django itself refuses while it reads a request: too many fields, too much of a body."""
    return problem(400, _("The request is malformed."))


def note_away(exc: BaseException | None) -> None:
    """A database that is away, or full: Redis has a series of its own."""
    if isinstance(exc, AWAY) and not isinstance(exc, StoreUnavailable):
        COUNTERS.refusals.add("database_away")


def away(request: HttpRequest, exc: Exception) -> HttpResponse:
    note_away(exc)
    logger.warning("%s %s: %s", request.method, request.path, exc)
    headers = {"Retry-After": str(RETRY_AFTER_S)}
    return problem(503, _("A part of the server is away. Try again shortly."), headers=headers)


def crashed(request: HttpRequest, exc: Exception) -> HttpResponse:
    tell = {"request": request}  # the log line gets the id that the client is told
    logger.error("%s %s failed", request.method, request.path, exc_info=exc, extra=tell)
    return server_error(request)
