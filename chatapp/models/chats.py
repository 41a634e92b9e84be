"""Conversations."""

from __future__ import annotations

import uuid
from typing import Self

from django.db import models

from chatapp.models.people import User


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
