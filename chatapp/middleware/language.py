"""Which language a request is answered in: its person's choice, else what the browser asks for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from asgiref.sync import async_to_sync
from django.conf import settings
from django.http import HttpRequest
from django.middleware.locale import LocaleMiddleware
from django.utils import translation

from chatapp.languages import SOURCE

if TYPE_CHECKING:
    from collections.abc import Iterable

    from django.http import HttpResponseBase

ADMIN: Final = "/admin/"


class Language(LocaleMiddleware):
    """The API knows its people later than this, and goes by Accept-Language alone: the page's own
    scripts send the language of the page (static/chat/http.js).

    Admin stays in the language of logs and docs, where its words are looked up.
    """

    def process_request(self, request: HttpRequest) -> None:
        translation.activate(async_to_sync(_language)(request))

    async def __acall__(self, request: HttpRequest) -> HttpResponseBase:
        with translation.override(await _language(request)):
            response = await self.get_response(request)  # type: ignore[misc]
            answer: HttpResponseBase = self.process_response(request, response)
        return answer


def language_asked_for(headers: Iterable[tuple[bytes, bytes]]) -> str:
    """By Accept-Language, for what is answered before Django."""
    request = HttpRequest()
    for name, value in headers:
        if name == b"accept-language":
            request.META["HTTP_ACCEPT_LANGUAGE"] = value.decode("latin-1")
    return translation.get_language_from_request(request)


async def _language(request: HttpRequest) -> str:
    chosen = ""
    if hasattr(request, "auser"):
        # No query more: whoever answers a page asks for its person as well. It is handed on to
        # synchronous views, which would look for themselves.
        request.user = await request.auser()
        chosen = getattr(request.user, "language", "")
    if request.path_info.startswith(ADMIN):
        return SOURCE
    if chosen in dict(settings.LANGUAGES):
        return chosen
    return translation.get_language_from_request(request)
