"""Why a service says no, by who can act on it. Each knows how HTTP would put it.

Refused
├── BadInput        what was asked cannot be done as it stands
│   ├── UnknownModel    names the models there are
│   ├── TooLarge        states the limit in bytes
│   ├── KeyReused       an Idempotency-Key came back with another request
│   └── NotInPlan       names the models that this person's plan includes
├── Occupied        other answers would have to end first
│   ├── ChatBusy        this chat is still answering
│   ├── QueueFull       enough messages wait in this chat
│   └── LimitReached    this person's plan leaves no room for one more
│       ├── EnoughRunning   for as long as so many are running
│       └── DayUsedUp       until others end with less than was set aside, or the day is over
├── ModelOff        operators have switched the model off for now
├── NotRetryable    there is nothing to try again, or not yet
├── NotContinuable  there is no beginning that a model could go on with
├── NotWaiting      what was to be changed has begun to be answered, or was removed
├── StoreAway       Redis cannot be reached: nothing was written, try again later
├── Erased          this person was erased since the request began: nothing was written
├── NotChecked      the redaction hook failed: nothing was written
└── NoRoom          Redis takes nothing new: nothing was written, what runs goes on

Unconfirmed         the database failed in its commit: a repeat with the same key finds out
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, ClassVar

from django.utils.text import format_lazy
from django.utils.translation import gettext_lazy as _

from chatapp.numerals import grouped_later
from relay import RecordUnavailable

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from django_stubs_ext import StrPromise


class Refused(Exception):
    """Base. `str()` is a sentence for the person who asked, in the language that is spoken where it
    is called: services raise it on threads that know of none. Nothing was written."""

    status: ClassVar[int] = 400
    kind: ClassVar[str] = "other"
    """As metrics count it (relay.metrics.REFUSALS)."""
    retry_after_s: int | None = None

    def __init__(self, detail: str | StrPromise, **extra: Any) -> None:
        super().__init__(detail)
        self.extra = extra
        """More members of the problem document."""


class BadInput(Refused):
    status = 422


class UnknownModel(BadInput):
    def __init__(self, name: str | None, known: Iterable[str]) -> None:
        names = sorted(known)
        listed = ", ".join(names) or _("none: RELAY_MODELS declares no model")
        detail = _("There is no model '{name}'. Models: {listed}.")
        super().__init__(format_lazy(detail, name=name or "", listed=listed), models=names)


class ModelOff(Refused):
    """`why`: what the operators say of it, as they typed it."""

    status = 503

    def __init__(self, name: str, why: str) -> None:
        detail = _("The model '{name}' is switched off for now. Nothing was sent. {why}")
        super().__init__(format_lazy(detail, name=name, why=why), model=name)


class TooLarge(BadInput):
    status = 413

    def __init__(self, size_bytes: int, limit_bytes: int) -> None:
        super().__init__(
            format_lazy(
                _("The input has {size} bytes; at most {limit} bytes are taken."),
                size=grouped_later(size_bytes),
                limit=grouped_later(limit_bytes),
            ),
            limit_bytes=limit_bytes,
        )


class KeyReused(BadInput):
    def __init__(self) -> None:
        super().__init__(_("This Idempotency-Key was used before with another request."))


class NotInPlan(BadInput):
    status = 403
    kind = "plan"

    def __init__(self, name: str, included: Iterable[str]) -> None:
        names = sorted(included)
        listed = ", ".join(names) or _("none that this server has")
        detail = _("Your plan does not include the model '{name}'. It includes: {listed}.")
        super().__init__(format_lazy(detail, name=name, listed=listed), models=names)


class Occupied(Refused):
    """Some answers would have to end first. `running` names them: perhaps one has by now."""

    def __init__(self, detail: StrPromise, running: Sequence[str], **extra: Any) -> None:
        super().__init__(detail, **extra)
        self.running = running


class ChatBusy(Occupied):
    status = 409
    kind = "chat_busy"

    def __init__(self, running: Sequence[str]) -> None:
        super().__init__(
            _("This chat is still answering. Wait for the answer or stop it, then send again."),
            running,
            response_id=running[0],
        )


class QueueFull(Occupied):
    status = 429
    kind = "queue_full"
    retry_after_s = 5

    def __init__(self, running: Sequence[str], limit: int) -> None:
        super().__init__(
            format_lazy(
                _(
                    "{limit} messages wait in this chat already. Wait until one is answered, or "
                    "remove one."
                ),
                limit=limit,
            ),
            running,
            limit=limit,
        )


class NotRetryable(Refused):
    status = 409


class NotWaiting(Refused):
    status = 409

    def __init__(self) -> None:
        super().__init__(
            _("This message does not wait any more: its answer has begun, or it was removed.")
        )


class NotContinuable(Refused):
    status = 409


class LimitReached(Occupied):
    """Says how much is used, of what, and when there is more."""

    status = 429
    retry_after_s = 5

    def __init__(
        self,
        detail: StrPromise,
        running: Sequence[str],
        *,
        quota: str,
        used: int,
        limit: int,
        resets_at: str | None,
    ) -> None:
        super().__init__(
            detail,
            running,
            quota=quota,
            used=used,
            limit=limit,
            remaining=max(0, limit - used),
            resets_at=resets_at,
        )


class EnoughRunning(LimitReached):
    kind = "running"

    def __init__(self, running: Sequence[str], limit: int) -> None:
        super().__init__(
            format_lazy(
                _(
                    "You have {running} answers running; at most {limit} may run at a time. "
                    "Wait until one has ended, or stop one."
                ),
                running=len(running),
                limit=limit,
            ),
            running,
            quota="generations",
            used=len(running),
            limit=limit,
            resets_at=None,
        )


class DayUsedUp(LimitReached):
    kind = "tokens"

    def __init__(
        self, running: Sequence[str], *, used: int, limit: int, resets_at: datetime, now: datetime
    ) -> None:
        clock = f"{resets_at:%H:%M} UTC"
        if used < limit:
            told = _(
                "You have used {used} of {limit} output tokens today, and your running answers "
                "may need the rest. Wait until one has ended, or stop one."
            )
        else:
            told = _(
                "You have used {used} of {limit} output tokens today. There are new ones from "
                "{clock} on; nothing else is lost."
            )
            self.retry_after_s = max(1, math.ceil((resets_at - now).total_seconds()))
        super().__init__(
            format_lazy(told, used=grouped_later(used), limit=grouped_later(limit), clock=clock),
            running,
            quota="output_tokens_per_day",
            used=used,
            limit=limit,
            resets_at=resets_at.isoformat().replace("+00:00", "Z"),
        )


class StoreAway(Refused):
    status = 503
    kind = "store_away"
    retry_after_s = 5

    def __init__(self) -> None:
        super().__init__(
            _("Answers cannot be started right now; nothing was saved. Try again shortly.")
        )


class Erased(Refused):
    status = 403

    def __init__(self) -> None:
        super().__init__(_("This account was erased in the meantime. Nothing was saved or sent."))


class NotChecked(Refused):
    status = 503
    kind = "not_checked"
    retry_after_s = 30

    def __init__(self) -> None:
        super().__init__(
            _(
                "Texts are checked before they are stored, and that check failed. Nothing was "
                "saved or sent. Try again later; if it stays, tell whoever runs this server."
            )
        )


class NoRoom(Refused):
    status = 503
    kind = "store_full"
    retry_after_s = 30
    """Memory comes back as answers end and their logs expire, not in seconds."""

    def __init__(self) -> None:
        super().__init__(
            _(
                "The server has no room for new answers at the moment; nothing was saved, and "
                "running answers go on. Try again in a minute."
            )
        )


class Unconfirmed(RecordUnavailable):
    """The question may be written, and it may not: no refusal, and answered as an outage."""
