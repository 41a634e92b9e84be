"""The native API (design §4): JSON in, JSON out, every error a problem document."""

from __future__ import annotations

from ninja import NinjaAPI

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
