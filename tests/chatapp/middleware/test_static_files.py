"""Static files with DEBUG, as `make run` serves them."""

from __future__ import annotations

from typing import Any

import pytest
from django.http import Http404, HttpRequest, HttpResponse
from django.test import AsyncRequestFactory

from chatapp.middleware.static_files import StaticFiles


async def _else(request: HttpRequest) -> HttpResponse:
    return HttpResponse("not a static file")


@pytest.fixture
def static_files(settings: Any) -> StaticFiles:
    settings.DEBUG = True
    return StaticFiles(_else)


@pytest.mark.parametrize("path", ["/static/", "/static/none.js", "/static/chat/page.js;a=b"])
async def test_a_file_that_is_not_there_is_a_404(static_files: StaticFiles, path: str) -> None:
    with pytest.raises(Http404):
        await static_files(AsyncRequestFactory().get(path))


async def test_a_file_that_is_there_is_sent(static_files: StaticFiles) -> None:
    response = await static_files(AsyncRequestFactory().get("/static/chat/page.js"))
    assert response.status_code == 200


async def test_anything_else_goes_on(static_files: StaticFiles) -> None:
    response = await static_files(AsyncRequestFactory().get("/chats"))
    assert isinstance(response, HttpResponse)
    assert response.content == b"not a static file"
