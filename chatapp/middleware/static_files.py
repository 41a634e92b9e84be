"""Static files, where one that is not there is a 404.

With DEBUG servestatic raises for it, to tell a developer in which folders it looked; that is a 500,
and any address below /static/ would be one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.http import Http404
from servestatic.middleware import ServeStaticMiddleware
from servestatic.responders import MissingFileError

if TYPE_CHECKING:
    from django.http import HttpRequest, HttpResponseBase


class StaticFiles(ServeStaticMiddleware):  # type: ignore[misc]  # servestatic is not typed
    async def __call__(self, request: HttpRequest) -> HttpResponseBase:
        try:
            response: HttpResponseBase = await super().__call__(request)
        except MissingFileError as exc:
            raise Http404(str(exc)) from exc
        return response
