"""Django's middleware without its thread hops.

Under ASGI, Django runs `process_request` and `process_response` of its own middleware in a thread
each: 16 hops around a view, more CPU than the view itself. None of these methods does I/O, but for
the one that saves a changed session, so they are called right on the event loop. They work under a
synchronous handler as well.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from asgiref.sync import sync_to_async
from csp.constants import HEADER
from csp.middleware import CSPMiddleware
from csp.utils import build_policy
from django.conf import settings
from django.contrib.auth.middleware import AuthenticationMiddleware
from django.contrib.messages.middleware import MessageMiddleware
from django.contrib.sessions.middleware import SessionMiddleware
from django.middleware.clickjacking import XFrameOptionsMiddleware
from django.middleware.common import CommonMiddleware
from django.middleware.csrf import CsrfViewMiddleware
from django.middleware.security import SecurityMiddleware
from django.utils.deprecation import MiddlewareMixin

if TYPE_CHECKING:
    from collections.abc import Callable

    from django.http import HttpRequest, HttpResponseBase


class OnLoop(MiddlewareMixin):
    """Put before one of Django's middleware classes whose methods do no I/O."""

    async def __acall__(self, request: HttpRequest) -> HttpResponseBase:
        before: Callable[..., Any] | None = getattr(self, "process_request", None)
        after: Callable[..., Any] | None = getattr(self, "process_response", None)
        response = before(request) if before else None
        if response is None:
            response = await self.get_response(request)  # type: ignore[misc]
        answer: HttpResponseBase = after(request, response) if after else response
        return answer


class Security(OnLoop, SecurityMiddleware):
    pass


class Common(OnLoop, CommonMiddleware):
    pass


class Authentication(OnLoop, AuthenticationMiddleware):
    pass


class Messages(OnLoop, MessageMiddleware):
    """On the loop because messages are kept in a cookie (settings.MESSAGE_STORAGE)."""


class Frames(OnLoop, XFrameOptionsMiddleware):
    pass


class Csrf(OnLoop, CsrfViewMiddleware):
    async def process_view(self, *args: Any, **kwargs: Any) -> Any:  # type: ignore[override]
        """A coroutine function so that Django does not move it to a thread."""
        return super().process_view(*args, **kwargs)


class Session(SessionMiddleware):
    async def __acall__(self, request: HttpRequest) -> HttpResponseBase:
        self.process_request(request)
        response = await self.get_response(request)  # type: ignore[misc]
        if request.session.modified or settings.SESSION_SAVE_EVERY_REQUEST:  # it will be saved
            return await sync_to_async(self.process_response)(request, response)
        return self.process_response(request, response)


class ContentSecurityPolicy(OnLoop, CSPMiddleware):
    """The strict policy of the site; stock admin gets what its own scripts need, and no more.

    Both texts are made once: django-csp builds them anew for every response, 0.1 ms each time.
    """

    def __init__(self, get_response: Any) -> None:
        super().__init__(get_response)
        self._site = build_policy(config=settings.CONTENT_SECURITY_POLICY["DIRECTIVES"])
        self._admin = build_policy(config=settings.ADMIN_CONTENT_SECURITY_POLICY)

    def process_response(
        self, request: HttpRequest, response: HttpResponseBase
    ) -> HttpResponseBase:
        if settings.DEBUG and response.status_code in (404, 500):
            return response  # Django's own pages about an error bring inline styles
        admin = request.path_info.startswith("/admin/")
        response.headers.setdefault(HEADER, self._admin if admin else self._site)
        return response
