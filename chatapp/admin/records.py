"""For whoever answers for the site: every response, and what was done to it. Nothing is edited."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from asgiref.sync import async_to_sync
from django.contrib import admin, messages
from django.contrib.admin.utils import quote
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.urls import URLPattern, path, reverse
from django.utils import timezone
from django.utils.html import format_html
from django.views.decorators.http import require_POST

from chatapp import services
from chatapp.models import ApiKey, AuditEvent, Chat, Message, Response, User
from relay import RecordUnavailable, StopReason, StoreUnavailable

if TYPE_CHECKING:
    from django.db.models import Model, QuerySet


class ReadOnly:
    """Put before ModelAdmin: who may see a row may not add, change or delete one."""

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False


@admin.register(Response)
class ResponseAdmin(ReadOnly, admin.ModelAdmin[Response]):
    """Searchable by person, model, end state and date; a running one can be stopped."""

    list_display = (
        *("id", "user", "model", "answered_by", "status", "reason", "created_at"),
        *("output_tokens", "for_nobody", "cost"),
    )
    list_filter = ("status", "reason", "model", "answered_by", "created_at")
    search_fields = ("id", "user__username", "model", "answered_by", "status", "reason")
    search_help_text = "Part of an id, a user name, a model, an end state or its reason"
    date_hierarchy = "created_at"
    list_select_related = ("user",)
    show_full_result_count = False
    actions = ("stop",)
    fields = (
        ("id", "user", "chat", "model", "answered_by"),
        ("status", "reason", "worker"),
        "answer",
        "asked",
        ("left_out", "shown_from"),
        ("created_at", "started_at", "first_token_at", "ended_at", "erased_at"),
        ("input_tokens", "cached_input_tokens", "output_tokens", "reasoning_tokens"),
        ("usage_source", "counted_output_tokens", "difference", "cost"),
        ("fold_seq", "delivered_seq", "for_nobody"),
        ("cancel_after_s", "leave_after_s"),
        ("stop_requested_at", "stop_by", "stop_reason"),
        ("retry_of", "idempotency_key", "metadata"),
        "trail",
    )
    readonly_fields = ("answer", "asked", "difference", "for_nobody", "trail")

    @admin.display(description="Answer")
    def answer(self, row: Response) -> str:
        if row.fold:
            return services.recorded(row).text
        return "removed with its chat" if row.erased_at else "not recorded yet"

    @admin.display(description="Asked")
    def asked(self, row: Response) -> str:
        turns = json.loads(row.request or "{}").get("messages", [])
        return "\n\n".join(f"{turn['role']}: {turn.get('content', '')}" for turn in turns)

    @admin.display(description="Output tokens that only the provider counted", empty_value="-")
    def difference(self, row: Response) -> int | None:
        return row.uncounted_output_tokens

    @admin.display(description="Zombie tokens", ordering="zombie_tokens", empty_value="-")
    def for_nobody(self, row: Response) -> int | None:
        return row.zombie_tokens

    @admin.display(description="Audit")
    def trail(self, row: Response) -> str:
        url = reverse("admin:chatapp_auditevent_changelist")
        return format_html('<a href="{}?response_id={}">audit entries</a>', url, row.pk)

    @admin.action(description="Stop selected answers that are running", permissions=["stop"])
    def stop(self, request: HttpRequest, queryset: QuerySet[Response]) -> None:
        _stop(request, queryset.filter(pk__in=Response.objects.running().values("pk")))

    def has_stop_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("chatapp.change_response")

    def get_urls(self) -> list[URLPattern]:
        stop = self.admin_site.admin_view(require_POST(self.stop_one))
        return [
            path("<path:response_id>/stop/", stop, name="chatapp_response_stop"),
            *super().get_urls(),
        ]

    def stop_one(self, request: HttpRequest, response_id: str) -> HttpResponse:
        if not self.has_stop_permission(request):
            raise PermissionDenied
        row = get_object_or_404(Response, pk=response_id)
        _stop(request, [row])
        return HttpResponseRedirect(page_of(row.pk))

    def render_change_form(
        self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any
    ) -> HttpResponse:
        context["may_stop"] = self.has_stop_permission(request)
        return super().render_change_form(request, context, *args, **kwargs)


def page_of(response_id: str) -> str:
    """The page of one response. Admin has an escape of its own: to it `_22` in an id is a quote."""
    return reverse("admin:chatapp_response_change", args=[quote(response_id)])


def _stop(request: HttpRequest, rows: Iterable[Response]) -> None:
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


@admin.register(AuditEvent)
class AuditEventAdmin(ReadOnly, admin.ModelAdmin[AuditEvent]):
    list_display = ("at", "action", "actor", "username", "model", "status", "response_link")
    list_filter = ("action", "status", "model", "at")
    search_fields = ("username", "actor", "response_id", "model", "status")
    search_help_text = "Part of a user name, a model, an end state or a response id"
    date_hierarchy = "at"
    show_full_result_count = False

    @admin.display(description="Response", ordering="response_id", empty_value="-")
    def response_link(self, row: AuditEvent) -> str:
        if not row.response_id:
            return ""
        return format_html('<a href="{}">{}</a>', page_of(row.response_id), row.response_id)

    def lookup_allowed(self, lookup: str, value: Any, request: HttpRequest) -> bool:
        return lookup == "response_id" or super().lookup_allowed(lookup, value, request)


class MessageInline(ReadOnly, admin.TabularInline[Message, Chat]):
    model = Message
    fields = ("position", "parent", "role", "text", "response", "created_at")
    readonly_fields = fields
    ordering = ("position",)
    extra = 0


@admin.register(Chat)
class ChatAdmin(ReadOnly, admin.ModelAdmin[Chat]):
    list_display = ("title", "user", "model", "updated_at")
    list_filter = ("model", "updated_at")
    search_fields = ("id", "title", "user__username")
    list_select_related = ("user",)
    inlines = (MessageInline,)


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
