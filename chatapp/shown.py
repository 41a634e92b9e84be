"""Pictures in stored requests are references, and are put in when a request is run.

A picture is told to a model with every question after it. Written into each request it would be
kept as often, in base64.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from chatapp.middleware.threads import on_database_thread
from chatapp.models import Picture
from chatapp.pictures import data_url

if TYPE_CHECKING:
    from relay import GenerationRequest

KIND: Final = "picture"
GONE: Final = "[A picture was here that is not kept any more.]"
UNSEEN: Final = "[A picture was here, which you cannot see.]"
"""For a model that does not take any, in a conversation that began with another."""


def reference(picture_id: int) -> dict[str, Any]:
    return {"type": KIND, "id": picture_id}


async def with_pictures(request: GenerationRequest) -> GenerationRequest:
    """Ready to be sent to a provider: as `image_url` parts, of pictures of its own chat alone.

    Raises what the database raises.
    """
    ids = {part["id"] for part in _references(request)}
    if not ids:
        return request
    urls = await _urls(request.response_id, ids)
    return msgspec.structs.replace(request, messages=[_filled(m, urls) for m in request.messages])


def _references(request: GenerationRequest) -> list[dict[str, Any]]:
    contents = (message.get("content") for message in request.messages)
    parts = (part for content in contents if isinstance(content, list) for part in content)
    return [part for part in parts if isinstance(part, dict) and part.get("type") == KIND]


def _filled(message: dict[str, Any], urls: dict[int, str]) -> dict[str, Any]:
    content = message.get("content")
    if not isinstance(content, list):
        return message
    return message | {"content": [_part(part, urls) for part in content]}


def _part(part: Any, urls: dict[int, str]) -> Any:
    if not isinstance(part, dict) or part.get("type") != KIND:
        return part
    url = urls.get(part["id"])
    if url is None:
        return {"type": "text", "text": GONE}
    return {"type": "image_url", "image_url": {"url": url}}


@on_database_thread
def _urls(response_id: str, ids: set[int]) -> dict[int, str]:
    rows = Picture.objects.filter(pk__in=ids, chat__responses=response_id).values_list(
        "pk", "media_type", "data"
    )
    return {pk: data_url(media_type, bytes(data)) for pk, media_type, data in rows}
