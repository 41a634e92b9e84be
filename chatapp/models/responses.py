"""One record per response. Once final it wins over any log (PROTOCOL 8)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from django.db import models
from django.db.models import F, Q

from chatapp.models.chats import Chat
from chatapp.models.people import User
from relay import TERMINAL, Status

if TYPE_CHECKING:
    from datetime import datetime

SLOW_MS = 5000
"""To the first token: what a person calls slow. Part of an index."""
RUNNING = [str(status) for status in Status if status not in TERMINAL]
FINAL = [str(status) for status in Status if status in TERMINAL]
STATUSES = [(str(status), str(status).replace("_", " ")) for status in Status]


class ResponseQuerySet(models.QuerySet["Response"]):
    def visible_to(self, user: User) -> Self:
        """A person's own, unless its chat was deleted."""
        return self.filter(user=user, erased_at=None)

    def running(self) -> Self:
        """Not final: its log, if there is one, says more than the row."""
        return self.filter(status__in=RUNNING)

    def final(self) -> Self:
        return self.filter(status__in=FINAL)

    def waiting(self) -> Self:
        """Queued behind another answer of their chat: no log, and nothing reserved."""
        return self.filter(waits=True, status=Status.QUEUED)

    def begun(self) -> Self:
        """Running, and not waiting for another answer of their chat."""
        return self.running().filter(waits=False)

    def stop_wished(self) -> Self:
        return self.filter(stop_requested_at__isnull=False)

    def keyed(self, user: User, idempotency_key: str) -> Self:
        return self.filter(user=user, idempotency_key=idempotency_key)

    def ended_since(self, moment: datetime) -> Self:
        return self.final().filter(ended_at__gte=moment)

    def underdelivered_since(self, moment: datetime) -> Self:
        """Ended lately with events that no viewer was known to have received then."""
        return self.ended_since(moment).filter(delivered_seq__lt=F("fold_seq"))

    def unjudged_between(self, since: datetime, until: datetime) -> Self:
        """Ended then, and nobody has counted yet what was generated for nobody."""
        return self.ended_since(since).filter(
            ended_at__lt=until, zombie_tokens=None, erased_at=None
        )


class Response(models.Model):
    """The record of one answer. Once final it wins over any log (PROTOCOL 8).

    `queued` and `in_progress` rows are hints; `status` is sure only when it is final.
    """

    id = models.CharField(primary_key=True, max_length=48)
    user = models.ForeignKey(
        User, on_delete=models.PROTECT, related_name="responses", db_index=False
    )
    chat = models.ForeignKey(
        Chat, on_delete=models.SET_NULL, null=True, blank=True, related_name="responses"
    )
    model = models.CharField(max_length=200)
    request = models.TextField()
    """The GenerationRequest as JSON text: jsonb would refuse a NUL that a person pasted."""
    request_hash = models.CharField(max_length=64)
    """SHA-256 of what the client sent, to tell a repeat from another request."""
    idempotency_key = models.CharField(max_length=255, null=True, blank=True)  # noqa: DJ001 - unique
    left_out = models.PositiveIntegerField(default=0)
    """Messages of its chat that the model was not shown, the oldest: they did not fit."""
    shown_from = models.PositiveIntegerField(default=0)
    """Position of the oldest message that it was shown; 0 where nothing was left out."""
    metadata = models.TextField(default="{}")
    """The client's own JSON object."""

    status = models.CharField(max_length=16, choices=STATUSES, default=str(Status.QUEUED))
    reason = models.CharField(max_length=32, blank=True)
    waits = models.BooleanField(default=False)
    """For the end of another answer of its chat. Kept by one that ended while it waited."""
    stop_requested_at = models.DateTimeField(null=True, blank=True)
    stop_by = models.CharField(max_length=150, blank=True)
    """User name of who wished the stop; empty for nobody in particular."""
    stop_reason = models.CharField(max_length=16, blank=True)
    cancel_after_s = models.FloatField(null=True, blank=True)
    leave_after_s = models.FloatField(null=True, blank=True)

    fold = models.TextField(blank=True)
    """The Snapshot as JSON text, once final; empty before, and after it was erased."""
    story = models.TextField(blank=True)
    """relay's Story as JSON text, once final: how it came about, without content."""
    fold_seq = models.PositiveIntegerField(default=0)
    fold_epoch = models.BigIntegerField(default=0)
    input_tokens = models.PositiveIntegerField(null=True, blank=True)
    output_tokens = models.PositiveIntegerField(null=True, blank=True)
    cached_input_tokens = models.PositiveIntegerField(null=True, blank=True)
    reasoning_tokens = models.PositiveIntegerField(null=True, blank=True)
    usage_source = models.CharField(max_length=16, blank=True)
    counted_output_tokens = models.PositiveIntegerField(null=True, blank=True)
    """Our own count, whatever the provider says: token ids where it sends them, else deltas."""
    answered_by = models.CharField(max_length=200, blank=True)
    """The model that was asked last: `model`, or the fallback that answered for it. Empty where
    nobody was asked, and before the end."""
    cost = models.DecimalField(max_digits=20, decimal_places=10, null=True, blank=True)
    """By the prices of `answered_by` at its end, in their currency; null where it is unknown."""
    delivered_seq = models.PositiveIntegerField(default=0)
    """Highest event known to have been handed to a viewer's socket."""
    zombie_tokens = models.PositiveIntegerField(null=True, blank=True)
    """Output tokens of events that no viewer was handed; null until that is judged."""
    worker = models.CharField(max_length=100, blank=True)

    created_at = models.DateTimeField()
    started_at = models.DateTimeField(null=True, blank=True)
    first_token_ms = models.PositiveIntegerField(null=True, blank=True)
    """From `created_at` to `first_token_at`, to count and to filter by."""
    writing_ms = models.PositiveIntegerField(null=True, blank=True)
    """From `first_token_at` to `ended_at`."""
    first_token_at = models.DateTimeField(null=True, blank=True)
    ended_at = models.DateTimeField(null=True, blank=True)
    erased_at = models.DateTimeField(null=True, blank=True)
    """When its content was removed: its chat was deleted, its time was over, or its person was
    erased. The record stays (law 14)."""
    retry_of = models.OneToOneField(
        "self", on_delete=models.SET_NULL, null=True, blank=True, related_name="retried_as"
    )

    objects = ResponseQuerySet.as_manager()

    class Meta:
        ordering = ("-created_at",)
        permissions = (
            ("stop_response", "Can stop answers"),
            ("read_text", "Is shown texts at once"),
            ("show_text", "Can have one answer's text shown"),
            ("flag_response", "Can flag answers"),
        )
        constraints = (
            models.UniqueConstraint(
                fields=("user", "idempotency_key"), name="response_key_once_per_user"
            ),
            # Two tabs that send at once meet here.
            models.UniqueConstraint(
                fields=("chat",),
                condition=Q(status__in=RUNNING, waits=False),
                name="response_one_running_in_chat",
            ),
            models.CheckConstraint(
                condition=Q(status__in=RUNNING + FINAL), name="response_status_known"
            ),
            models.CheckConstraint(
                condition=Q(status__in=RUNNING) | Q(ended_at__isnull=False),
                name="response_final_has_end",
            ),
        )
        indexes = (
            models.Index(fields=("user", "-created_at"), name="response_of_user"),
            models.Index(fields=("status", "-created_at"), name="response_by_status"),
            models.Index(fields=("model", "-created_at"), name="response_by_model"),
            models.Index(fields=("-created_at",), name="response_by_date"),
            models.Index(fields=("ended_at",), name="response_by_end"),
            # What the lists of admin are narrowed by; small, because most rows are not in them.
            models.Index(
                fields=("answered_by", "-created_at"),
                condition=~Q(answered_by=""),
                name="response_by_answerer",
            ),
            models.Index(
                fields=("reason", "-created_at"), condition=~Q(reason=""), name="response_by_reason"
            ),
            models.Index(
                fields=("-created_at",),
                condition=Q(first_token_ms__gte=SLOW_MS),
                name="response_slow",
            ),
            models.Index(
                fields=("-created_at",), condition=Q(zombie_tokens__gt=0), name="response_zombie"
            ),
            # For the retention: what was dropped long ago is not walked through again.
            models.Index(
                fields=("ended_at",), condition=Q(erased_at=None), name="response_with_text"
            ),
            models.Index(
                fields=("chat",),
                condition=Q(waits=True, status=str(Status.QUEUED)),
                name="response_waiting",
            ),
            # By `waits` alone: SQLite uses it only where the statement says the very same, and the
            # status is a parameter there.
            models.Index(
                fields=("user",), condition=Q(waits=True), name="response_waiting_of_user"
            ),
        )

    def __str__(self) -> str:
        return self.id

    @property
    def is_final(self) -> bool:
        return self.status in FINAL

    @property
    def uncounted_output_tokens(self) -> int | None:
        """What the provider says beyond our own count; None where one of both is unknown."""
        told, counted = self.output_tokens, self.counted_output_tokens
        if self.usage_source != "provider" or told is None or counted is None:
            return None
        return told - counted
