"""What is said in a chat."""

from __future__ import annotations

from typing import Self

from django.db import models
from django.db.models import Q

from chatapp.models.chats import Chat
from chatapp.models.responses import Response


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
