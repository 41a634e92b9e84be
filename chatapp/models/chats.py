"""Conversations."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Self

from django.db import models
from django.db.models import F, Q
from django.utils import timezone

from chatapp.models.people import User
from relay import Status

if TYPE_CHECKING:
    from datetime import datetime


class ChatQuerySet(models.QuerySet["Chat"]):
    def visible_to(self, user: User) -> Self:
        """A person's own, unless it was deleted a moment ago."""
        return self.filter(user=user, deleted_at=None)

    def listed_for(self, user: User) -> Self:
        """As the list shows them. One without a title: its first message was never taken."""
        pinned_first = F("pinned_at").desc(nulls_last=True)
        return self.visible_to(user).exclude(title="").order_by(pinned_first, "-updated_at", "-pk")

    def older_than(self, chat: Chat) -> Self:
        """What follows it in the list; all pinned ones come before those that are not."""
        older = Q(updated_at__lt=chat.updated_at)
        return self.filter(older | Q(updated_at=chat.updated_at, pk__lt=chat.pk), pinned_at=None)

    def deleted_since(self, user: User, moment: datetime) -> Self:
        """Those of a person that can still be brought back: not what was emptied, title and all."""
        hidden = self.filter(user=user, deleted_at__gt=moment).exclude(title="")
        return hidden.order_by("-deleted_at")

    def changed_since(self, moment: datetime) -> Self:
        """As pages show them, also those that were deleted a moment ago."""
        return self.filter(changed_at__gt=moment).exclude(title="", deleted_at=None)

    def deleted_before(self, moment: datetime) -> Self:
        return self.filter(deleted_at__lte=moment)

    def untitled_since(self, moment: datetime) -> Self:
        """Named by their first words so far, and answered at least once: a model may name them."""
        rows = self.filter(titled_by=Chat.TitledBy.WORDS, updated_at__gt=moment, deleted_at=None)
        answered = rows.filter(responses__status=Status.COMPLETED)
        return answered.exclude(title="").order_by("updated_at").distinct()


class Chat(models.Model):
    """One conversation of one person."""

    class DoubleText(models.TextChoices):
        """What a message does that comes while an answer is being written."""

        REJECT = "reject"
        QUEUE = "queue"
        INTERRUPT = "interrupt"

    class TitledBy(models.TextChoices):
        """Whose words the title is. A person's is never replaced."""

        WORDS = "words"
        """The beginning of the first message."""
        MODEL = "model"
        PERSON = "person"
        NOBODY = "nobody"
        """The beginning of the first message, and a model was asked in vain."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="chats", db_index=False)
    title = models.CharField(max_length=200, blank=True)
    titled_by = models.CharField(
        max_length=8, choices=TitledBy.choices, default=TitledBy.WORDS, editable=False
    )
    model = models.CharField(max_length=200)
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField()
    """When somebody last wrote in it: the order of the list."""
    changed_at = models.DateTimeField(default=timezone.now, editable=False)
    """When anything that pages show of it last changed, by the store's clock."""
    double_text = models.CharField(
        max_length=16, choices=DoubleText.choices, default=DoubleText.REJECT
    )
    system_prompt = models.TextField(blank=True)
    """Said to the model before everything else; empty: nothing is."""
    temperature = models.FloatField(null=True, blank=True)
    """Null: the model's own."""
    max_output_tokens = models.PositiveIntegerField(null=True, blank=True)
    """Of one answer. Null: the model's own limit, which also bounds a larger one."""
    pinned_at = models.DateTimeField(null=True, blank=True)
    """Null: not pinned."""
    deleted_at = models.DateTimeField(null=True, blank=True)
    """When its person deleted it. It is hidden, and removed by the sweep after a time of grace."""
    current = models.ForeignKey(
        "Message",
        on_delete=models.SET_NULL,
        null=True,
        blank=True,
        editable=False,
        related_name="+",
    )
    """The last message of the branch that is shown; null: nothing was said yet."""

    objects = ChatQuerySet.as_manager()

    class Meta:
        ordering = ("-updated_at",)
        indexes = (
            models.Index(fields=("user", "-updated_at"), name="chat_list"),
            models.Index(fields=("-updated_at",), name="chat_by_date"),  # admin's list
            models.Index(fields=("user", "changed_at"), name="chat_changed"),
            models.Index(
                fields=("updated_at",), condition=Q(titled_by="words"), name="chat_untitled"
            ),
            models.Index(
                fields=("deleted_at",),
                condition=Q(deleted_at__isnull=False),
                name="chat_deleted",
            ),
        )

    def __str__(self) -> str:
        return str(self.id)  # never its title, which is made of what was said: admin shows this

    @property
    def pinned(self) -> bool:
        return self.pinned_at is not None
