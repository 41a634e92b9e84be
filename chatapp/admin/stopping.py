"""Stopping answers from admin: side by side, and told in a sentence."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from asgiref.sync import async_to_sync
from django.contrib import messages

from chatapp import services
from chatapp.models import Response, User
from relay import RecordUnavailable, StopReason, StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from django.http import HttpRequest


def may_stop(request: HttpRequest) -> bool:
    return request.user.has_perm("chatapp.stop_response")


def stop(request: HttpRequest, rows: Iterable[Response]) -> None:
    """Stop them side by side, and say how many ended at once and how many are still stopping."""
    user = request.user
    assert isinstance(user, User)  # noqa: S101 - admin lets nobody else in

    async def stop_all() -> list[services.Stopping]:
        return await asyncio.gather(
            *[services.cancel(response=row, by=user, reason=StopReason.ADMIN) for row in rows]
        )

    rows = list(rows)
    try:
        outcomes = async_to_sync(stop_all)()
    except (StoreUnavailable, RecordUnavailable) as exc:
        messages.error(request, f"Redis or the database is away; the stop is tried again: {exc}")
        return
    stopping = sum(outcome.cancelling for outcome in outcomes)
    ended = len(outcomes) - stopping
    messages.success(request, f"{ended} stopped, {stopping} still stopping.")
