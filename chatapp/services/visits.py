"""Viewers' comings and goings, kept for the story of an answer.

The hub tells of each viewer that has gone; the sweep writes them down, many in one statement. What
a process had not written when it died is lost: figures for people, by which nothing is decided.
"""

from __future__ import annotations

from collections import Counter, deque
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Final

from django.db.models import Count
from django.utils import timezone

from chatapp.finalize import database_errors
from chatapp.middleware.threads import transact
from chatapp.models import Visit

if TYPE_CHECKING:
    import relay

MOST_KEPT: Final = 10_000
"""In memory, while the database is away: the oldest go first."""
MOST_OF_ONE: Final = 200
"""Of one response: a client that comes and goes for hours fills no table."""


class Visits:
    """Those of one process."""

    def __init__(self) -> None:
        self._gone: deque[Visit] = deque(maxlen=MOST_KEPT)

    def note(self, visit: relay.Visit) -> None:
        """A viewer has gone: for the hub's `hear_visits`."""
        now = timezone.now()
        self._gone.append(
            Visit(
                response_id=visit.response_id,
                # `<login>/<viewer>`: whose login it was the response tells.
                viewer=visit.viewer.rpartition("/")[2][:40],
                came_at=now - timedelta(seconds=visit.stayed_s),
                left_at=now,
                from_seq=visit.from_seq,
                to_seq=visit.to_seq,
            )
        )

    async def write(self) -> None:
        """For the sweep. Raises RecordUnavailable, and keeps them."""
        if not self._gone:
            return
        taken = list(self._gone)
        with database_errors():
            await transact(partial(_write, taken))
        for visit in taken:  # some may have given way to newer ones meanwhile
            if self._gone and self._gone[0] is visit:
                self._gone.popleft()


def _write(visits: list[Visit]) -> None:
    ids = {visit.response_id for visit in visits}
    known = Visit.objects.filter(response_id__in=ids).order_by().values_list("response_id")
    counts = Counter(dict(known.annotate(count=Count("pk"))))
    kept = []
    for visit in visits:
        counts[visit.response_id] += 1
        if counts[visit.response_id] <= MOST_OF_ONE:
            kept.append(visit)
    Visit.objects.bulk_create(kept)
