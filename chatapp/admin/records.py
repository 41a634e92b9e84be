"""What was done, and by which keys. Nothing is edited."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.contrib import admin, messages
from django.db.models import Q
from django.utils import timezone
from django.utils.html import format_html

from chatapp.admin.filters import BoundedPaginator, ByAction, ByDay
from chatapp.admin.read_only import ReadOnly, page_of
from chatapp.models import FINAL, RUNNING, ApiKey, AuditEvent

if TYPE_CHECKING:
    from django.db.models import QuerySet
    from django.http import HttpRequest


@admin.register(AuditEvent)
class AuditEventAdmin(ReadOnly, admin.ModelAdmin[AuditEvent]):
    list_display = ("at", "action", "actor", "username", "model", "status", "response_link")
    # All that is asked here has an index: there are millions of entries (tests/bench/admin.py).
    sortable_by = ("at",)
    linked_by = ("response_id", "status", "actor", "username")
    list_filter = (ByAction, ("at", ByDay))
    search_fields = ("response_id",)
    search_help_text = "A user (who did it, or whose answer it is), an end state or an id"
    paginator = BoundedPaginator
    show_full_result_count = False

    @admin.display(description="Response", ordering="response_id", empty_value="-")
    def response_link(self, row: AuditEvent) -> str:
        if not row.response_id:
            return ""
        return format_html('<a href="{}">{}</a>', page_of(row.response_id), row.response_id)

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[AuditEvent], search_term: str
    ) -> tuple[QuerySet[AuditEvent], bool]:
        for word in search_term.split():
            if word in FINAL or word in RUNNING:
                queryset = queryset.filter(status=word)
            elif word.startswith("resp_"):
                queryset = queryset.filter(response_id=word)
            else:
                queryset = queryset.filter(Q(username=word) | Q(actor=word))
        return queryset, False


@admin.register(ApiKey)
class ApiKeyAdmin(ReadOnly, admin.ModelAdmin[ApiKey]):
    """Keys are made by `manage.py create_api_key`, which shows them once; here they end."""

    list_display = ("prefix", "user", "name", "created_at", "last_used_at", "revoked_at")
    list_filter = ("revoked_at", "created_at")
    search_fields = ("prefix", "name", "user__username")
    list_select_related = ("user",)
    fields = ("prefix", "user", "name", "created_at", "last_used_at", "revoked_at")
    actions = ("revoke",)

    @admin.action(description="Revoke selected keys", permissions=["revoke"])
    def revoke(self, request: HttpRequest, queryset: QuerySet[ApiKey]) -> None:
        count = queryset.filter(revoked_at=None).update(revoked_at=timezone.now())
        messages.success(request, f"{count} revoked; their streams end within 5 seconds.")

    def has_revoke_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("chatapp.change_apikey")
