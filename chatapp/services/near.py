"""Who is near a limit of their plan today."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from django.db.models import Count, Q, Sum

from chatapp import quotas
from chatapp.models import RUNNING, Response, User
from relay import day_start, quota_day

if TYPE_CHECKING:
    from datetime import datetime

MOST: Final = 50
LOOKED_AT: Final = 1000
"""People who used most today: who is near a limit of tokens is among them, or nearly."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Near:
    pk: int
    username: str
    plan: str
    """Empty: the settings' limits."""
    tokens: int
    most_tokens: int
    """0 = no limit."""
    running: int
    most_running: int
    """0 = no limit."""

    @property
    def share(self) -> float:
        """The larger of both, 0 to 1 and beyond."""
        used = self.tokens / self.most_tokens if self.most_tokens else 0.0
        busy = self.running / self.most_running if self.most_running else 0.0
        return max(used, busy)

    @property
    def percent(self) -> int:
        return round(100 * self.share)


def near_limits(now: datetime) -> list[Near]:
    """Nearest first. Three statements. By the records: what runs counts with its end."""
    since = day_start(quota_day(now))
    used = Response.objects.final().filter(created_at__gte=since).order_by().values("user")
    summed = used.annotate(tokens=Sum("output_tokens")).order_by("-tokens")[:LOOKED_AT]
    tokens = {row["user"]: row["tokens"] or 0 for row in summed}
    begun = Response.objects.filter(Q(status__in=RUNNING), waits=False).order_by().values("user")
    running = Counter({row["user"]: row["n"] for row in begun.annotate(n=Count("pk"))})
    found = []
    for user in User.objects.filter(pk__in={*tokens, *running}):
        terms = quotas.terms_of(user)
        one = Near(
            pk=user.pk,
            username=user.username,
            plan=user.plan.name if user.plan else "",
            tokens=tokens.get(user.pk, 0),
            most_tokens=terms.max_output_tokens_per_day,
            running=running[user.pk],
            most_running=terms.max_generations,
        )
        found.append(one)
    return sorted(found, key=lambda one: -one.share)[:MOST]
