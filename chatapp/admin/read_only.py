"""What every page of records shares: nothing is added, edited or removed there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from django.contrib.admin import ShowFacets
from django.contrib.admin.utils import quote
from django.urls import reverse

if TYPE_CHECKING:
    from collections.abc import Iterable

    from django.db.models import Model
    from django.http import HttpRequest


class ReadOnly:
    """Put before ModelAdmin: who may see a row may not add, change or delete one."""

    list_filter: ClassVar[Iterable[Any]]
    show_facets = ShowFacets.NEVER  # a COUNT of everything for each choice
    linked_by: ClassVar[tuple[str, ...]] = ()
    """What links narrow a list by, besides its filters."""

    def lookup_allowed(self, lookup: str, value: Any, request: HttpRequest) -> bool:
        """Stock admin takes every column of a row from the address, `?fold__contains=…` as well:
        how many rows there are would tell a text letter by letter, unnoted."""
        if lookup in self.linked_by:
            return True
        pairs = [one if isinstance(one, tuple) else (one,) for one in self.list_filter]
        columns = {one[0] for one in pairs if isinstance(one[0], str)}
        named = {getattr(one, "parameter_name", None) for one in self.list_filter}
        return lookup in named or lookup.partition("__")[0] in columns

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
