"""What is kept: people, chats, messages, one record per response, keys, and the audit trail.

Reading rules are QuerySet methods; invariants are constraints. No row here changes another one.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, Self

from django.contrib.auth.models import AbstractUser, UserManager
from django.core.validators import MinValueValidator
from django.db import models
from django.db.models import F, Q

from relay import TERMINAL, Status

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

RUNNING = [str(status) for status in Status if status not in TERMINAL]
FINAL = [str(status) for status in Status if status in TERMINAL]
STATUSES = [(str(status), str(status).replace("_", " ")) for status in Status]


class Plan(models.Model):
    """What people may do, and at which price. A change counts from the next request on."""

    name = models.CharField(max_length=100, unique=True)
    max_generations = models.PositiveIntegerField("answers at a time", default=4)
    """0 = no limit."""
    max_output_tokens_per_day = models.PositiveIntegerField("output tokens per UTC day", default=0)
    """0 = no limit."""
    model_names = models.TextField("models", blank=True)
    """Names of the models file, separated by spaces, commas or lines; empty = all."""
    input_price_per_mtok = models.DecimalField(
        "price of a million input tokens",
        max_digits=12,
        decimal_places=6,
        null=True,
        blank=True,
        validators=[MinValueValidator(0)],
    )
    """Instead of the models file's, in its currency; null: that one."""
    output_price_per_mtok = models.DecimalField(
        "price of a million output tokens",
        max_digits=12,
        decimal_places=6,
        null=True,
        blank=True,
        validators=[MinValueValidator(0)],
    )

    class Meta:
        ordering = ("name",)

    def __str__(self) -> str:
        return self.name

    @property
    def allowed(self) -> frozenset[str]:
        """Names of models; empty = all."""
        return frozenset(self.model_names.replace(",", " ").split())


class People(UserManager["User"]):
    """A person comes with their plan: no question pays a query for it."""

    use_in_migrations = False

    def get_queryset(self) -> models.QuerySet[User]:
        return super().get_queryset().select_related("plan")


class User(AbstractUser):
    """A person who signs in. Ours from the first migration, so that it can grow."""

    plan = models.ForeignKey(
        Plan, on_delete=models.SET_NULL, null=True, blank=True, related_name="people"
    )
    """Null: the settings' limits."""

    objects: ClassVar[People] = People()


class ChatQuerySet(models.QuerySet["Chat"]):
    def visible_to(self, user: User) -> Self:
        return self.filter(user=user)


class Chat(models.Model):
    """One conversation of one person."""

    class DoubleText(models.TextChoices):
        """What a message does that comes while an answer is being written."""

        REJECT = "reject"
        QUEUE = "queue"
        INTERRUPT = "interrupt"

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="chats", db_index=False)
    title = models.CharField(max_length=200, blank=True)
    model = models.CharField(max_length=200)
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField()
    """When somebody last wrote in it: the order of the list."""
    double_text = models.CharField(
        max_length=16, choices=DoubleText.choices, default=DoubleText.REJECT
    )

    objects = ChatQuerySet.as_manager()

    class Meta:
        ordering = ("-updated_at",)
        indexes = (models.Index(fields=("user", "-updated_at"), name="chat_list"),)

    def __str__(self) -> str:
        return self.title or str(self.id)


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
    """The Snapshot as JSON text, once final; empty before, and after its chat was deleted."""
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
    first_token_at = models.DateTimeField(null=True, blank=True)
    ended_at = models.DateTimeField(null=True, blank=True)
    erased_at = models.DateTimeField(null=True, blank=True)
    """When its content was removed because its chat was deleted; the record stays (law 14)."""
    retry_of = models.OneToOneField(
        "self", on_delete=models.SET_NULL, null=True, blank=True, related_name="retried_as"
    )

    objects = ResponseQuerySet.as_manager()

    class Meta:
        ordering = ("-created_at",)
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
            models.Index(
                fields=("chat",),
                condition=Q(waits=True, status=str(Status.QUEUED)),
                name="response_waiting",
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


class MessageQuerySet(models.QuerySet["Message"]):
    def said(self) -> Self:
        """What a model is shown of a conversation: no empty answers, none that was tried again."""
        return self.exclude(text="").filter(response__retried_as=None)

    def before(self, position: int) -> Self:
        return self.filter(position__lt=position)


class Message(models.Model):
    """One turn of a chat. An answer's text is filled in when its response is final."""

    class Role(models.TextChoices):
        USER = "user"
        ASSISTANT = "assistant"
        SYSTEM = "system"

    chat = models.ForeignKey(Chat, on_delete=models.CASCADE, related_name="messages")
    role = models.CharField(max_length=16, choices=Role.choices)
    text = models.TextField(blank=True)
    position = models.PositiveIntegerField()
    """1, 2, 3 …"""
    response = models.OneToOneField(
        Response, on_delete=models.SET_NULL, null=True, blank=True, related_name="message"
    )
    created_at = models.DateTimeField(auto_now_add=True)

    objects = MessageQuerySet.as_manager()

    class Meta:
        ordering = ("chat", "position")
        constraints = (
            models.UniqueConstraint(fields=("chat", "position"), name="message_position_once"),
            models.CheckConstraint(
                condition=Q(role__in=("user", "assistant", "system")), name="message_role_known"
            ),
        )

    def __str__(self) -> str:
        return f"{self.role} {self.position}"


class ApiKeyQuerySet(models.QuerySet["ApiKey"]):
    def usable(self) -> Self:
        return self.filter(revoked_at=None, user__is_active=True)


class ApiKey(models.Model):
    """A bearer key. Only its hash is kept; the key is shown once, when it is made."""

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="api_keys")
    name = models.CharField(max_length=100, blank=True)
    prefix = models.CharField(max_length=16, unique=True)
    """Public first part: finds the row, and lets a person tell keys apart."""
    digest = models.CharField(max_length=64)
    """SHA-256 of the whole key: 256 random bits need no slow hash."""
    created_at = models.DateTimeField(auto_now_add=True)
    last_used_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)

    objects = ApiKeyQuerySet.as_manager()

    class Meta:
        ordering = ("-created_at",)

    def __str__(self) -> str:
        return f"{self.prefix}…"


class AppendOnly(Exception):
    """Audit entries are never changed or removed."""


class AuditQuerySet(models.QuerySet["AuditEvent"]):
    def update(self, **kwargs: Any) -> NoReturn:
        raise AppendOnly("audit entries are never changed")

    def delete(self) -> NoReturn:
        raise AppendOnly("audit entries are never removed")

    def bulk_update(self, objs: Any, fields: Iterable[str], batch_size: Any = None) -> NoReturn:
        raise AppendOnly("audit entries are never changed")


class AuditEvent(models.Model):
    """Who did what to which response, without its content. Names are copied: it outlives them.

    A database trigger refuses changes that do not come through here (migration 0001).
    """

    at = models.DateTimeField()
    actor = models.CharField(max_length=150)
    """User name; empty for the system itself."""
    action = models.CharField(max_length=32)
    response_id = models.CharField(max_length=48, blank=True)
    username = models.CharField(max_length=150, blank=True)
    """Whose response it is."""
    model = models.CharField(max_length=200, blank=True)
    status = models.CharField(max_length=16, blank=True)
    detail = models.JSONField(default=dict)

    objects = AuditQuerySet.as_manager()

    class Meta:
        ordering = ("-at", "-id")
        indexes = (
            models.Index(fields=("-at",), name="audit_by_date"),
            models.Index(fields=("response_id",), name="audit_of_response"),
            models.Index(fields=("username", "-at"), name="audit_of_user"),
            models.Index(fields=("status", "-at"), name="audit_by_status"),
        )

    def __str__(self) -> str:
        return f"{self.action} {self.response_id}"

    def save(self, *args: Any, **kwargs: Any) -> None:
        if not self._state.adding:
            raise AppendOnly("audit entries are never changed")
        super().save(*args, **kwargs)

    def delete(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise AppendOnly("audit entries are never removed")
