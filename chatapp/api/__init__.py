"""The native API (design §4): JSON in, JSON out, every error a problem document."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from ninja import NinjaAPI
from ninja.errors import HttpError

from chatapp.api.chats import router as chats
from chatapp.api.failures import handle_failures
from chatapp.api.messages import router as messages
from chatapp.api.responses import router as responses
from chatapp.auth import api_auth

api = NinjaAPI(
    title="Unbroken",
    version="1",
    urls_namespace="api",
    auth=api_auth,
    docs_url=None,  # its page loads scripts from elsewhere, which the site's policy forbids
)
api.add_router("/responses", responses)
api.add_router("/chats", chats)
api.add_router("/messages", messages)
handle_failures(api)


@api.get("/events", url_name="line", tags=["events"])
async def get_line(request: HttpRequest) -> HttpResponse:
    """Server-sent events of all answers that are named by `follow`, and of changes of chats.

    Answered before Django by chatapp/lines.py; this stands for it in the documentation.
    """
    raise HttpError(501, "Event streams need an ASGI server.")
