"""Pictures that people showed to a model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from django.db import models

from chatapp.models.chats import Chat

if TYPE_CHECKING:
    from chatapp.models.people import User


class PictureQuerySet(models.QuerySet["Picture"]):
    def visible_to(self, user: User) -> Self:
        return self.filter(chat__in=Chat.objects.visible_to(user))


class Picture(models.Model):
    """One picture of one chat, and gone with it. Never changed; several messages may show it."""

    chat = models.ForeignKey(Chat, on_delete=models.CASCADE, related_name="pictures")
    media_type = models.CharField(max_length=16)
    """Of its content (chatapp/pictures.py)."""
    width = models.PositiveIntegerField()
    height = models.PositiveIntegerField()
    data = models.BinaryField()
    created_at = models.DateTimeField(auto_now_add=True)

    objects = PictureQuerySet.as_manager()

    def __str__(self) -> str:
        return f"{self.media_type} {self.width} x {self.height}"
