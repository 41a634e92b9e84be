"""Who followed an answer, and how far each was handed it."""

from __future__ import annotations

from django.db import models


class Visit(models.Model):
    """One view of one response, written after it has ended. Names are copied: no key to a row that
    a viewer's last heartbeat might miss."""

    response_id = models.CharField(max_length=48)
    viewer = models.CharField(max_length=40)
    """The random id of one page load or client; it says nothing of whom."""
    came_at = models.DateTimeField()
    left_at = models.DateTimeField()
    from_seq = models.PositiveIntegerField()
    """The cursor it came with; 0: from the start, or for a snapshot."""
    to_seq = models.PositiveIntegerField()
    """The last event that was handed to its socket; 0: none."""

    class Meta:
        default_permissions = ()
        ordering = ("came_at", "id")
        indexes = (models.Index(fields=("response_id", "came_at"), name="visit_of_response"),)

    def __str__(self) -> str:
        return f"{self.viewer} of {self.response_id}"
