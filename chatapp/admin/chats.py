"""Chats: a list without a word of what was said, and a page that shows it and notes who read it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.shortcuts import get_object_or_404
from django.template.response import TemplateResponse
from django.urls import path
from django.views.decorators.http import require_POST

from chatapp.admin.filters import BoundedPaginator, ByModel
from chatapp.admin.read_only import ReadOnly, actor_of, page_of
from chatapp.admin.texts import PageOfTexts, chat_told, may_ask_for_text
from chatapp.models import Chat

if TYPE_CHECKING:
    from django.http import HttpRequest, HttpResponse
    from django.urls import URLPattern

MOST: Final = 200
"""Messages of one page, the newest."""


@admin.register(Chat)
class ChatAdmin(PageOfTexts, ReadOnly, admin.ModelAdmin[Chat]):
    list_display = ("id", "user", "model", "created_at", "updated_at")
    list_filter = (ByModel, "updated_at")
    search_fields = ("id", "user__username")
    search_help_text = "Part of an id or a user name"
    list_select_related = ("user",)
    sortable_by = ()
    paginator = BoundedPaginator
    show_full_result_count = False

    def get_urls(self) -> list[URLPattern]:
        view = self.admin_site.admin_view(require_POST(self.show_text))
        return [path("<uuid:chat_id>/text/", view, name="chatapp_chat_text"), *super().get_urls()]

    def show_text(self, request: HttpRequest, chat_id: str) -> HttpResponse:
        chat = get_object_or_404(Chat.objects.select_related("user"), pk=chat_id)
        if not (self.has_view_permission(request, chat) and may_ask_for_text(request)):
            raise PermissionDenied
        return self.page(request, chat, with_text=True)

    def page(self, request: HttpRequest, chat: Chat, *, with_text: bool) -> HttpResponse:
        answers = chat.responses.order_by("-created_at").only("pk", "model", "status", "created_at")
        context = {
            **self.admin_site.each_context(request),
            "title": f"Chat {chat.pk}",
            "opts": self.opts,
            "chat": chat,
            "answers": [(page_of(row.pk), row) for row in answers[:MOST]],
            "may_ask_for_text": may_ask_for_text(request),
            "messages_of_chat": None,
        }
        if with_text:
            context["messages_of_chat"] = chat_told(chat, actor=actor_of(request), most=MOST)
        return TemplateResponse(request, "admin/chatapp/chat/page.html", context)
