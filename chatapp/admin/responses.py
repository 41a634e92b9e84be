"""Every response: a list to find one in, and the story of each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.contrib.admin.utils import unquote
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.template.response import TemplateResponse
from django.urls import URLPattern, path
from django.views.decorators.http import require_POST

from chatapp.admin import charts
from chatapp.admin.read_only import ReadOnly, actor_of, page_of
from chatapp.admin.stopping import may_stop, stop
from chatapp.admin.texts import may_ask_for_text, shown_at_once, told
from chatapp.models import Response
from chatapp.services import story

if TYPE_CHECKING:
    from django.db.models import QuerySet

OTHERS = 5
"""Answers of the same person that a story leads to."""


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

    @admin.display(description="Zombie tokens", ordering="zombie_tokens", empty_value="-")
    def for_nobody(self, row: Response) -> int | None:
        return row.zombie_tokens

    @admin.action(description="Stop selected answers that are running", permissions=["stop"])
    def stop(self, request: HttpRequest, queryset: QuerySet[Response]) -> None:
        stop(request, queryset.filter(pk__in=Response.objects.running().values("pk")))

    def has_stop_permission(self, request: HttpRequest) -> bool:
        return may_stop(request)

    def get_urls(self) -> list[URLPattern]:
        def view(name: str, function: Any) -> URLPattern:
            wrapped = self.admin_site.admin_view(require_POST(function))
            found: URLPattern = path(
                f"<path:response_id>/{name}/", wrapped, name=f"chatapp_response_{name}"
            )
            return found

        return [
            view("stop", self.stop_one),
            view("text", self.show_text),
            *super().get_urls(),
        ]

    def stop_one(self, request: HttpRequest, response_id: str) -> HttpResponse:
        if not may_stop(request):
            raise PermissionDenied
        row = get_object_or_404(Response, pk=response_id)
        stop(request, [row])
        return HttpResponseRedirect(page_of(row.pk))

    def show_text(self, request: HttpRequest, response_id: str) -> HttpResponse:
        """For whoever is not shown texts at once: they ask for one, and the trail says so."""
        row = get_object_or_404(Response.objects.select_related("user", "chat"), pk=response_id)
        if not (self.has_view_permission(request, row) and may_ask_for_text(request)):
            raise PermissionDenied
        return self._page(request, row, with_text=True)

    def change_view(
        self,
        request: HttpRequest,
        object_id: str,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        row = self.get_object(request, unquote(object_id))
        if not self.has_view_permission(request, row) or request.method == "POST":
            raise PermissionDenied
        if row is None:
            gone: HttpResponse = self._get_obj_does_not_exist_redirect(  # type: ignore[attr-defined]
                request, self.opts, object_id
            )
            return gone
        return self._page(request, row, with_text=shown_at_once(request))

    def _page(self, request: HttpRequest, row: Response, *, with_text: bool) -> HttpResponse:
        told_of = story.story_of(row)
        others = Response.objects.filter(user=row.user_id).exclude(pk=row.pk)
        wanted = ("pk", "model", "status", "created_at")
        context = {
            **self.admin_site.each_context(request),
            "title": f"Answer {row.pk}",
            "opts": self.opts,
            "row": row,
            "steps": story.steps_of(row),
            "chart": charts.of_time("Tokens over time", told_of.points, told_of.longest_gap),
            "settings": story.settings_of(row),
            "others": [
                (page_of(other.pk), other)
                for other in others.only(*wanted).order_by("-created_at")[:OTHERS]
            ],
            "may_stop": may_stop(request) and not row.is_final,
            "may_ask_for_text": may_ask_for_text(request),
            "texts": told(row, actor=actor_of(request), how="story") if with_text else None,
        }
        return TemplateResponse(request, "admin/chatapp/response/story.html", context)
