"""Who is shown what was said: some at once, some when they ask; the audit trail knows of each.

Every page of admin that could show a text asks here, and nowhere else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib.admin.utils import unquote
from django.core.exceptions import PermissionDenied
from django.db import transaction

from chatapp import audit
from chatapp.services import story

if TYPE_CHECKING:
    from django.db.models.options import Options
    from django.http import HttpRequest, HttpResponse

    from chatapp.models import Chat, Message, Response


class PageOfTexts:
    """Put before ModelAdmin: its page of one row is `page`, which notes whom it shows a text."""

    if TYPE_CHECKING:
        opts: Options[Any]

        def get_object(
            self, request: HttpRequest, object_id: str, from_field: str | None = None
        ) -> Any: ...
        def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool: ...
        def page(self, request: HttpRequest, row: Any, *, with_text: bool) -> HttpResponse: ...
        def _get_obj_does_not_exist_redirect(
            self, request: HttpRequest, opts: Options[Any], object_id: str
        ) -> HttpResponse: ...

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
            return self._get_obj_does_not_exist_redirect(request, self.opts, object_id)
        return self.page(request, row, with_text=shown_at_once(request))


def shown_at_once(request: HttpRequest) -> bool:
    return request.user.has_perm("chatapp.read_text")


def may_ask_for_text(request: HttpRequest) -> bool:
    return shown_at_once(request) or request.user.has_perm("chatapp.show_text")


@transaction.atomic
def chat_told(chat: Chat, *, actor: str, most: int) -> list[Message]:
    """The last messages of `chat`, oldest first, having noted that `actor` reads them."""
    audit.chat_read(chat, actor=actor)
    newest = chat.messages.select_related("response").order_by("-position")
    wanted = ("position", "parent_id", "role", "text", "response__id", "created_at", "chat_id")
    return list(reversed(newest.only(*wanted)[:most]))


@transaction.atomic
def told(row: Response, *, actor: str, how: str) -> story.Texts:
    """The texts of `row`, having noted that `actor` reads them."""
    audit.text_read(row, actor=actor, how=how)
    return story.texts(row)
