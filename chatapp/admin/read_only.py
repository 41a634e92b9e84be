"""What every page of records shares: nothing is added, edited or removed there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib.admin.utils import quote
from django.urls import reverse

if TYPE_CHECKING:
    from django.db.models import Model
    from django.http import HttpRequest


class ReadOnly:
    """Put before ModelAdmin: who may see a row may not add, change or delete one."""

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False


def page_of(response_id: str) -> str:
    """The page of one response. Admin has an escape of its own: to it `_22` in an id is a quote."""
    return reverse("admin:chatapp_response_change", args=[quote(response_id)])


def actor_of(request: HttpRequest) -> str:
    """As the audit trail names them."""
    return request.user.get_username()
