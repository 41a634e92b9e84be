"""Every response: a list to find one in, and the story of each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from django.contrib import admin, messages
from django.contrib.admin.options import IncorrectLookupParameters
from django.core.exceptions import PermissionDenied
from django.http import (
    HttpRequest,
    HttpResponse,
    HttpResponseBadRequest,
    HttpResponseRedirect,
    StreamingHttpResponse,
)
from django.shortcuts import get_object_or_404
from django.template.response import TemplateResponse
from django.urls import URLPattern, path
from django.views.decorators.http import require_POST

from chatapp import audit
from chatapp.admin import charts
from chatapp.admin.filters import (
    BoundedPaginator,
    ByAnswerer,
    ByDay,
    ByModel,
    ByProvider,
    ByReason,
    Flagged,
    Slow,
    Zombie,
)
from chatapp.admin.read_only import ReadOnly, actor_of, page_of
from chatapp.admin.stopping import may_stop, stop
from chatapp.admin.texts import PageOfTexts, may_ask_for_text, shown_at_once, told
from chatapp.models import Response
from chatapp.services import flags, searching, story, table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from django.db.models import QuerySet
    from django.http.response import HttpResponseBase

    from relay import Story

LIST: Final = "chatapp_response_changelist"
OTHERS: Final = 5
"""Answers of the same person that a story leads to."""


def _chart_of(told: Story) -> tuple[str, Sequence[tuple[int, int]], tuple[int, int]]:
    gap = told.longest_gap if told.longest_gap[1] >= story.GAP_MS else (0, 0)
    title = "Output tokens since the claim"
    return (f"{title}; marked: the longest pause" if gap[1] else title), told.points, gap


@admin.register(Response)
class ResponseAdmin(PageOfTexts, ReadOnly, admin.ModelAdmin[Response]):
    """Searchable by person, model, end state and date; a running one can be stopped."""

    list_display = (
        *("short", "user", "model", "answered_by", "status", "reason", "created_at"),
        *("first_token_ms", "output_tokens", "for_nobody", "cost", "note"),
    )
    # By other columns a million rows would have to be sorted.
    sortable_by = ("created_at",)
    list_filter = (
        *("status", ("created_at", ByDay), Slow, Zombie, Flagged),
        *(ByModel, ByAnswerer, ByProvider, ByReason),
    )
    linked_by = ("user__id__exact",)
    search_fields = ("id",)  # what is found by is in get_search_results
    search_help_text = (
        "An id or its beginning, a user or an e-mail address, a model, an end state, a reason; "
        'other words are looked for in what was said, and so is all "between quotation marks". '
        "Looking into texts is noted in the audit trail."
    )
    list_select_related = ("user", "flag")
    list_per_page = 50
    paginator = BoundedPaginator
    show_full_result_count = False
    actions = ("stop",)

    @admin.display(description="Answer")
    def short(self, row: Response) -> str:
        return f"{row.pk[:15]}…"

    @admin.display(description="Zombie tokens", empty_value="-")
    def for_nobody(self, row: Response) -> int | None:
        return row.zombie_tokens

    @admin.display(description="Flag", empty_value="-")
    def note(self, row: Response) -> str | None:
        flag = getattr(row, "flag", None)
        return (flag.note or "yes") if flag else None

    def get_queryset(self, request: HttpRequest) -> QuerySet[Response]:
        rows = super().get_queryset(request)
        if request.resolver_match and request.resolver_match.url_name == LIST:
            return rows.defer("fold", "request", "story", "metadata")  # most of a row's bytes
        return rows

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Response], search_term: str
    ) -> tuple[QuerySet[Response], bool]:
        asked = searching.wanted(search_term)
        if asked.words and not shown_at_once(request):
            messages.warning(request, "Words of texts are looked for only for who may read texts.")
            return queryset.none(), False
        found = searching.search(queryset, asked)
        if found.by_text:
            audit.text_searched(actor=actor_of(request), found=found.count)
        if found.only_newest:
            messages.info(
                request,
                f"These words are in very many texts: only the newest {searching.NEWEST:,} answers "
                "were looked through. A user, a model or a date narrows that.",
            )
        return found.rows, False

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
            view("flag", self.flag),
            path(
                "export/",
                self.admin_site.admin_view(require_POST(self.export)),
                name="chatapp_response_export",
            ),
            *super().get_urls(),
        ]

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        more = {"may_export_text": shown_at_once(request)}
        return super().changelist_view(request, {**(extra_context or {}), **more})

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
        return self.page(request, row, with_text=True)

    def flag(self, request: HttpRequest, response_id: str) -> HttpResponse:
        if not request.user.has_perm("chatapp.flag_response"):
            raise PermissionDenied
        row = get_object_or_404(Response.objects.select_related("user"), pk=response_id)
        if "remove" in request.POST:
            flags.unflag(row, by=actor_of(request))
        else:
            flags.flag(row, by=actor_of(request), note=request.POST.get("note", ""))
        return HttpResponseRedirect(page_of(row.pk))

    def export(self, request: HttpRequest) -> HttpResponseBase:
        """The list as it is narrowed by the address, as a file that is written while it is read.

        With texts for whoever is shown them at once: who has to ask for each has each noted, and a
        file of thousands would be one line of the trail.
        """
        with_text = "text" in request.POST
        allowed = shown_at_once(request) if with_text else True
        if not (self.has_view_permission(request) and allowed):
            raise PermissionDenied
        kind = "csv" if request.POST.get("kind") == "csv" else "jsonl"
        try:
            rows = self.get_changelist_instance(request).queryset
        except IncorrectLookupParameters:
            sentence = "The filters in this address cannot be read. Nothing was exported."
            return HttpResponseBadRequest(sentence, content_type="text/plain; charset=utf-8")
        count = rows.order_by().count()
        filters = {name: str(value) for name, value in request.GET.items() if name != "q"}
        actor = actor_of(request)
        audit.exported(actor=actor, rows=count, with_text=with_text, filters=filters)
        reply = StreamingHttpResponse(
            table.lines(rows, kind=kind, with_text=with_text),
            content_type="text/csv; charset=utf-8" if kind == "csv" else "application/jsonl",
        )
        reply["Content-Disposition"] = f'attachment; filename="answers.{kind}"'
        reply["X-Rows"] = str(count)  # for the bar of export.js
        return reply

    def page(self, request: HttpRequest, row: Response, *, with_text: bool) -> HttpResponse:
        told_of = story.story_of(row)
        others = Response.objects.filter(user=row.user_id).exclude(pk=row.pk)
        wanted = ("pk", "model", "status", "created_at")
        context = {
            **self.admin_site.each_context(request),
            "title": f"Answer {row.pk}",
            "opts": self.opts,
            "row": row,
            "steps": story.steps_of(row),
            "chart": charts.of_time(*_chart_of(told_of)),
            "settings": story.settings_of(row),
            "others": [
                (page_of(other.pk), other)
                for other in others.only(*wanted).order_by("-created_at")[:OTHERS]
            ],
            "may_stop": may_stop(request) and not row.is_final,
            "may_ask_for_text": may_ask_for_text(request),
            "may_flag": request.user.has_perm("chatapp.flag_response"),
            "flag": getattr(row, "flag", None),
            "texts": told(row, actor=actor_of(request), how="story") if with_text else None,
        }
        return TemplateResponse(request, "admin/chatapp/response/story.html", context)
