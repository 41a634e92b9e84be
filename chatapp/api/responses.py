"""`/api/responses`: ask, look, leave, stop. Events are streams.py's."""

from __future__ import annotations

import json
import re
from functools import cache
from typing import TYPE_CHECKING, Final

from django.core.exceptions import SuspiciousOperation
from django.http import HttpRequest, HttpResponse
from django.http.multipartparser import MultiPartParserError
from django.shortcuts import aget_object_or_404
from django.urls import reverse
from ninja import Router
from ninja.errors import HttpError

from chatapp import runtime, services
from chatapp.api.shapes import Accepted, ResponseIn, to_disconnect
from chatapp.models import Response
from chatapp.services import Question
from chatapp.streams import wants_events
from relay import Status, StopReason

if TYPE_CHECKING:
    from chatapp.auth import Principal
    from chatapp.models import Message
    from chatapp.services import Sent

router = Router(tags=["responses"])

KEY: Final = re.compile(r"[\x21-\x7e]{1,255}")
VIEWER: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")


@router.post("", response={202: Accepted}, url_name="responses")
async def create_response(request: HttpRequest, data: ResponseIn) -> HttpResponse:
    """Ask a model. With `Accept: text/event-stream` the events come in this very reply."""
    question = Question(
        model=data.model,
        messages=data.messages(),
        instructions=data.instructions,
        max_output_tokens=data.max_output_tokens,
        temperature=data.temperature,
        stop=data.stops(),
        tools=data.tools,
        metadata=data.metadata,
        on_disconnect=to_disconnect(data.on_disconnect),
    )
    response = await services.create_response(
        user=principal(request).user,
        question=question,
        watching=watches(request),
        idempotency_key=idempotency_key(request),
    )
    return accepted(response)


@router.get("/{response_id}", url_name="response")
async def get_response(request: HttpRequest, response_id: str) -> HttpResponse:
    """The snapshot. With `?viewer=` it counts as presence."""
    response = await own_response(request, response_id)
    viewer = request.GET.get("viewer", "")
    if viewer and not response.is_final:
        name = f"{principal(request).login}/{check_viewer(viewer)}"
        await runtime.store().attend(response.pk, name)
    snapshot = await services.snapshot(response)
    return HttpResponse(snapshot.to_json(), content_type="application/json")


@router.get("/{response_id}/events", url_name="events")
async def get_events(request: HttpRequest, response_id: str) -> HttpResponse:
    """Server-sent events after `Last-Event-ID` (or `?after=`), then live.

    Answered before Django by chatapp/streams.py; this stands for it in the documentation.
    """
    raise HttpError(501, "Event streams need an ASGI server.")


@router.post("/{response_id}/leave", response={204: None}, url_name="leave")
async def leave(request: HttpRequest, response_id: str) -> HttpResponse:
    """This viewer goes on purpose; without a body, all viewers of this login."""
    response = await own_response(request, response_id)
    await services.leave(
        response=response, login=principal(request).login, viewer=leaving_viewer(request)
    )
    return HttpResponse(status=204)


@router.post("/{response_id}/cancel", url_name="cancel")
async def cancel(request: HttpRequest, response_id: str) -> HttpResponse:
    """Stop. 200 with the end, or 202 with `"cancelling": true` when it takes longer than 2 s."""
    response = await own_response(request, response_id)
    stopping = await services.cancel(
        response=response, by=principal(request).user, reason=StopReason.USER
    )
    body = stopping.snapshot.to_json()
    if stopping.cancelling:
        body = body[:-1] + b',"cancelling":true}'
    return HttpResponse(
        body, status=202 if stopping.cancelling else 200, content_type="application/json"
    )


def principal(request: HttpRequest) -> Principal:
    who: Principal = request.auth  # type: ignore[attr-defined]
    return who


async def own_response(request: HttpRequest, response_id: str) -> Response:
    """Raises Http404, for somebody else's as for nobody's."""
    return await aget_object_or_404(
        Response.objects.visible_to(principal(request).user), pk=response_id
    )


def watches(request: HttpRequest) -> bool:
    return wants_events(request.headers.get("Accept", ""))


def idempotency_key(request: HttpRequest) -> str | None:
    """Raises HttpError 400 for one that no client would make on purpose."""
    key = request.headers.get("Idempotency-Key")
    if key is not None and not KEY.fullmatch(key):
        raise HttpError(400, "Idempotency-Key must be 1 to 255 visible ASCII characters.")
    return key


def accepted(response: Response, **extra: object) -> HttpResponse:
    """How it was taken, in the same words to every repeat; how it stands, its snapshot says."""
    url = f"{_responses_url()}/{response.pk}"
    body = {
        "id": response.pk,
        "status": Status.QUEUED,
        "events_url": f"{url}/events",
        "cancel_url": f"{url}/cancel",
        **extra,
    }
    return HttpResponse(
        json.dumps(body), status=202, content_type="application/json", headers={"Location": url}
    )


def taken(sent: Sent, *, made: Message) -> HttpResponse:
    """The same, in a chat. `made` is the first of the messages that were written."""
    return accepted(
        sent.response,
        message_id=made.pk,
        question_id=sent.message.pk,
        answer_id=sent.answer.pk,
    )


@cache
def _responses_url() -> str:
    return reverse("api:responses")


def check_viewer(viewer: str) -> str:
    if not VIEWER.fullmatch(viewer):
        raise HttpError(400, "`viewer` must be 1 to 64 letters, digits, hyphens or underscores.")
    return viewer


def leaving_viewer(request: HttpRequest) -> str | None:
    """From a JSON body or a form: a beacon can send either, but no header of its own."""
    if request.content_type in ("application/x-www-form-urlencoded", "multipart/form-data"):
        try:
            viewer = request.POST.get("viewer")
        except (MultiPartParserError, SuspiciousOperation) as exc:
            raise HttpError(400, "The form cannot be read.") from exc
    else:
        try:
            body = json.loads(request.body or b"{}")
        except (ValueError, RecursionError) as exc:
            raise HttpError(400, "The body is not valid JSON.") from exc
        viewer = body.get("viewer") if isinstance(body, dict) else body
    if viewer is not None and not isinstance(viewer, str):
        raise HttpError(400, "`viewer` must be a text.")
    return check_viewer(viewer) if viewer else None
