"""The audit trail: append-only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from django.db import models

if TYPE_CHECKING:
    from collections.abc import Iterable


class AppendOnly(Exception):
    """Audit entries are never changed or removed."""


class AuditQuerySet(models.QuerySet["AuditEvent"]):
    def update(self, **kwargs: Any) -> NoReturn:
        raise AppendOnly("audit entries are never changed")

    def delete(self) -> NoReturn:
        raise AppendOnly("audit entries are never removed")

    def bulk_update(self, objs: Any, fields: Iterable[str], batch_size: Any = None) -> NoReturn:
        raise AppendOnly("audit entries are never changed")


class AuditEvent(models.Model):
    """Who did what to which response, without its content. Names are copied: it outlives them.

    A database trigger refuses changes that do not come through here (migration 0001).
    """

    at = models.DateTimeField()
    actor = models.CharField(max_length=150)
    """User name; empty for the system itself."""
    action = models.CharField(max_length=32)
    response_id = models.CharField(max_length=48, blank=True)
    username = models.CharField(max_length=150, blank=True)
    """Whose response it is."""
    model = models.CharField(max_length=200, blank=True)
    status = models.CharField(max_length=16, blank=True)
    detail = models.JSONField(default=dict)

    objects = AuditQuerySet.as_manager()

    class Meta:
        ordering = ("-at", "-id")
        indexes = (
            models.Index(fields=("-at",), name="audit_by_date"),
            models.Index(fields=("response_id",), name="audit_of_response"),
            models.Index(fields=("username", "-at"), name="audit_of_user"),
            models.Index(fields=("status", "-at"), name="audit_by_status"),
        )

    def __str__(self) -> str:
        return f"{self.action} {self.response_id}"

    def save(self, *args: Any, **kwargs: Any) -> None:
        if not self._state.adding:
            raise AppendOnly("audit entries are never changed")
        super().save(*args, **kwargs)

    def delete(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise AppendOnly("audit entries are never removed")
