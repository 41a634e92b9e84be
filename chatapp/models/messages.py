"""What is said in a chat."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Self

from django.db import models
from django.db.models import F, Q
from django.db.models.expressions import RawSQL

from chatapp.models.chats import Chat
from chatapp.models.responses import Response

if TYPE_CHECKING:
    from collections.abc import Iterable

    from chatapp.models.people import User

# By hand, because a recursion cannot be said in Django's words. A path is read with what it says,
# so the other branches of a chat cost nothing.
_PATH: Final = """
    WITH RECURSIVE path (id, parent_id) AS (
        SELECT id, parent_id FROM chatapp_message WHERE id IN ({ends})
        UNION SELECT m.id, m.parent_id FROM chatapp_message m JOIN path ON m.id = path.parent_id
    ) SELECT id FROM path
"""


class MessageQuerySet(models.QuerySet["Message"]):
    def visible_to(self, user: User) -> Self:
        return self.filter(chat__in=Chat.objects.visible_to(user))

    def path_to(self, message_id: int | None) -> Self:
        """What leads from the beginning to this message, with it; nothing leads to None.

        Positions rise along a path.
        """
        return self.on_paths_to([message_id])

    def on_paths_to(self, message_ids: Iterable[int | None]) -> Self:
        """The same for several messages, of different chats."""
        ends = tuple(pk for pk in message_ids if pk is not None)
        if not ends:
            return self.none()
        statement = _PATH.format(ends=", ".join(["%s"] * len(ends)))
        return self.filter(pk__in=RawSQL(statement, ends))  # noqa: S611 - nothing of it was typed

    def said(self) -> Self:
        """What a model is shown: no empty answers, and nothing whose text is not kept any more."""
        return self.exclude(text="", role=Message.Role.ASSISTANT).exclude(text="", pictured=[])

    def before(self, position: int) -> Self:
        return self.filter(position__lt=position)


class Message(models.Model):
    """One turn of a chat, which is a tree. An answer's text is filled in at its end.

    What hangs below the same message are versions of each other. An answer below an answer goes on
    with it: both are one answer to a person.
    """

    class Role(models.TextChoices):
        USER = "user"
        ASSISTANT = "assistant"
        SYSTEM = "system"

    chat = models.ForeignKey(Chat, on_delete=models.CASCADE, related_name="messages")
    role = models.CharField(max_length=16, choices=Role.choices)
    text = models.TextField(blank=True)
    pictured = models.JSONField(default=list, blank=True)
    """Its pictures, as {id, width, height, bytes}: what is asked of them without their data."""
    position = models.PositiveIntegerField()
    """1, 2, 3 … in the order of writing, over all branches."""
    parent = models.ForeignKey(
        "self", on_delete=models.CASCADE, null=True, blank=True, related_name="children"
    )
    """What was said before it, in the same chat; null: it begins the conversation."""
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
            models.CheckConstraint(
                condition=~Q(role="assistant") | Q(parent__isnull=False),
                name="message_answer_has_question",
            ),
            models.CheckConstraint(condition=~Q(parent=F("id")), name="message_not_its_own_parent"),
        )

    def __str__(self) -> str:
        return f"{self.role} {self.position}"

    @property
    def forgotten(self) -> bool:
        """A person's message whose text is not kept any more: nobody sends one without anything."""
        return self.role == self.Role.USER and not self.text and not self.pictured


class MessageHtml(models.Model):
    """What a message looks like: a copy, made at first sight and made anew when rules change."""

    message = models.OneToOneField(
        Message, on_delete=models.CASCADE, primary_key=True, related_name="kept_html"
    )
    version = models.CharField(max_length=16)
    """Of the rules it was made by (chatapp/rendering/kept.py)."""
    html = models.TextField()

    def __str__(self) -> str:
        return f"{self.version} {self.message_id}"
