"""Pictures of chats, to whoever they belong to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.http import HttpResponse
from django.shortcuts import aget_object_or_404
from django.views.decorators.cache import cache_control
from django.views.decorators.http import require_safe

from chatapp.models import Picture
from chatapp.views import person, signed_in

if TYPE_CHECKING:
    from django.http import HttpRequest

SANDBOX = "default-src 'none'; sandbox"
"""Opened by itself it is shown, and can do nothing."""


@signed_in
@require_safe
@cache_control(private=True, no_cache=True)
async def picture(request: HttpRequest, picture_id: int) -> HttpResponse:
    """Asked for each time, so that nobody sees it after them; sent once: it never changes."""
    mine = Picture.objects.visible_to(await person(request)).filter(pk=picture_id)
    etag = f'"{picture_id}"'
    if request.headers.get("If-None-Match") == etag:
        await aget_object_or_404(mine.only("pk"))
        reply = HttpResponse(status=304)
    else:
        found = await aget_object_or_404(mine)
        reply = HttpResponse(bytes(found.data), content_type=found.media_type)
        kind = found.media_type.removeprefix("image/")
        name = f"picture-{picture_id}.{kind}"
        reply.headers["Content-Disposition"] = f'inline; filename="{name}"'
        reply.headers["Content-Security-Policy"] = SANDBOX
        reply.headers["X-Content-Type-Options"] = "nosniff"
        reply.headers["Cross-Origin-Resource-Policy"] = "same-origin"
    reply.headers["ETag"] = etag
    return reply
