"""What lists of records are narrowed by. Choices come from what is declared, not from the tables:
SELECT DISTINCT over a million rows is slower than the list itself."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar, Final
from urllib.parse import urlsplit

from django.contrib import admin
from django.core.paginator import Paginator
from django.db.models import Q
from django.utils import timezone
from django.utils.functional import cached_property

from chatapp import catalog
from chatapp.models import AuditEvent
from chatapp.models.responses import SLOW_MS
from chatapp.services.searching import REASONS

if TYPE_CHECKING:
    from django.db.models import QuerySet
    from django.http import HttpRequest

    Pairs = list[tuple[str, str]]

MOST_COUNTED: Final = 10_000
"""Rows. Nobody turns a hundred pages; who wants more narrows the list or exports it."""
LATEST: Final = 10_000
"""Audit entries that are looked through for the names of actions."""


class BoundedPaginator(Paginator[Any]):
    """Counts no further than `MOST_COUNTED`: a COUNT of everything reads everything."""

    most = MOST_COUNTED

    @cached_property
    def count(self) -> int:
        rows: Any = self.object_list
        return len(rows.order_by().values_list("pk", flat=True)[:MOST_COUNTED])


class Choice(admin.SimpleListFilter):
    """One value of a column."""

    column: ClassVar[str] = ""

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        value = self.value()
        return queryset if value is None else queryset.filter(**{self.column: value})


class ByModel(Choice):
    title = "model asked"
    parameter_name = column = "model"

    def lookups(self, request: HttpRequest, model_admin: Any) -> Pairs:
        return [(name, name) for name in catalog.models()]


class ByAnswerer(ByModel):
    title = "model that answered"
    parameter_name = column = "answered_by"


class ByReason(Choice):
    title = "reason"
    parameter_name = column = "reason"

    def lookups(self, request: HttpRequest, model_admin: Any) -> Pairs:
        return [(name, name.replace("_", " ")) for name in REASONS]


class ByProvider(admin.SimpleListFilter):
    """By the host that answers for the models declared now."""

    title = "provider"
    parameter_name = "provider"

    def lookups(self, request: HttpRequest, model_admin: Any) -> Pairs:
        hosts = sorted({_host(model.base_url) for model in catalog.models().values()})
        return [(host, host) for host in hosts]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        host = self.value()
        if host is None:
            return queryset
        models = catalog.models().items()
        return queryset.filter(
            answered_by__in=[name for name, model in models if _host(model.base_url) == host]
        )


def _host(base_url: str) -> str:
    return urlsplit(base_url).netloc.rpartition("@")[2]


class ByDay(admin.DateFieldListFilter):
    """With yesterday, which is when most complaints are about."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        today = timezone.localtime().replace(hour=0, minute=0, second=0, microsecond=0)
        span: dict[str, Any] = {
            self.lookup_kwarg_since: str(today - timedelta(days=1)),
            self.lookup_kwarg_until: str(today),
        }
        self.links = (*self.links[:2], ("Yesterday", span), *self.links[2:])


class YesOnly(admin.SimpleListFilter):
    """Whether something is so; what is not so is nobody's question."""

    what: ClassVar[Q]

    def lookups(self, request: HttpRequest, model_admin: Any) -> Pairs:
        return [("yes", "Yes")]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return queryset.filter(self.what) if self.value() == "yes" else queryset


class Slow(YesOnly):
    title = f"first token after {SLOW_MS // 1000} s"
    parameter_name = "slow"
    what = Q(first_token_ms__gte=SLOW_MS)


class Zombie(YesOnly):
    title = "tokens for nobody"
    parameter_name = "zombie"
    what = Q(zombie_tokens__gt=0)


class Flagged(YesOnly):
    title = "flagged"
    parameter_name = "flagged"
    what = Q(flag__isnull=False)


class ByAction(Choice):
    """Of audit entries: actions of late, found without reading all."""

    title = "action"
    parameter_name = column = "action"

    def lookups(self, request: HttpRequest, model_admin: Any) -> Pairs:
        latest = AuditEvent.objects.order_by("-at").values("action")[:LATEST]
        found = {row["action"] for row in latest}
        chosen = request.GET.get(self.parameter_name)
        return [(name, name) for name in sorted(found | ({chosen} if chosen else set()))]
