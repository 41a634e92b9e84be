"""The trail: who did what to which response. Called inside the transaction that it tells about.

No content, ever: names, states and numbers only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.utils import timezone

from chatapp.models import AuditEvent, Response
from chatapp.statements import insert

if TYPE_CHECKING:
    from relay import Snapshot


def created(response: Response, *, actor: str, detail: dict[str, Any]) -> None:
    _write(_of(response, "created", actor=actor, detail=detail))


def stopped(response: Response, *, actor: str, reason: str) -> None:
    """A stop was wished; whether it came in time is what `ended` says."""
    _write(_of(response, "stopped", actor=actor, detail={"reason": reason}))


def ended(response_id: str, *, username: str, model: str, snapshot: Snapshot, worker: str) -> None:
    usage = snapshot.usage
    detail = {
        "reason": snapshot.reason,
        "finish_reason": snapshot.finish_reason,
        "error": snapshot.error.code if snapshot.error else None,
        "seq": snapshot.seq,
        "input_tokens": usage.input_tokens if usage else None,
        "output_tokens": usage.output_tokens if usage else None,
        "worker": worker,
    }
    _write(
        AuditEvent(
            action="ended",
            actor="",
            response_id=response_id,
            username=username,
            model=model,
            status=snapshot.status,
            detail=detail,
        )
    )


def erased(response: Response, *, actor: str) -> None:
    _write(_of(response, "erased", actor=actor, detail={}))


def _of(response: Response, action: str, *, actor: str, detail: dict[str, Any]) -> AuditEvent:
    return AuditEvent(
        action=action,
        actor=actor,
        response_id=response.pk,
        username=response.user.username,
        model=response.model,
        status=response.status,
        detail=detail,
    )


def _write(event: AuditEvent) -> None:
    event.at = timezone.now()
    event.detail = {key: value for key, value in event.detail.items() if value is not None}
    insert(event)
