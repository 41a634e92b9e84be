"""Marks that the staff puts on answers, to find them again."""

from __future__ import annotations

from django.db import models

from chatapp.models.responses import Response


class Flag(models.Model):
    """One per response; a new note takes the place of the old one."""

    response = models.OneToOneField(
        Response, on_delete=models.CASCADE, primary_key=True, related_name="flag"
    )
    note = models.CharField(max_length=500, blank=True)
    by = models.CharField(max_length=150)
    """User name."""
    at = models.DateTimeField()

    class Meta:
        default_permissions = ()

    def __str__(self) -> str:
        return f"{self.response_id} by {self.by}"
