"""The trail: who did what to which response. Called inside the transaction that it tells about.

No content, ever: names, states and numbers only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.utils import timezone

from chatapp.models import AuditEvent, Response, insert

if TYPE_CHECKING:
    from relay import Snapshot


def created(response: Response, *, actor: str, detail: dict[str, Any]) -> None:
    _write("created", response, actor=actor, status=response.status, detail=detail)


def stopped(response: Response, *, actor: str, reason: str) -> None:
    """A stop was wished; whether it came in time is what `ended` says."""
    _write("stopped", response, actor=actor, status=response.status, detail={"reason": reason})


def ended(response: Response, *, snapshot: Snapshot, worker: str) -> None:
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
    _write("ended", response, actor="", status=snapshot.status, detail=detail)


def erased(response: Response, *, actor: str) -> None:
    _write("erased", response, actor=actor, status=response.status, detail={})


def _write(
    action: str, response: Response, *, actor: str, status: str, detail: dict[str, Any]
) -> None:
    event = AuditEvent(
        at=timezone.now(),
        actor=actor,
        action=action,
        response_id=response.pk,
        username=response.user.username,
        model=response.model,
        status=status,
        detail={key: value for key, value in detail.items() if value is not None},
    )
    insert(event)
