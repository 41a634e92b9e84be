"""What an hour came to, so that a month is not added up from a million rows at each look."""

from __future__ import annotations

from django.db import models


class Figure(models.Model):
    """One sum of one hour (or, of people, of one day), by the model that answered."""

    class Kind(models.TextChoices):
        END = "end"
        """`key`: `<status> <reason>`."""
        FIRST = "first"
        """`key`: the bucket of the time to the first token (services/buckets.py)."""
        BETWEEN = "between"
        """`key`: the bucket of the time between two tokens."""
        PERSON = "person"
        """`key`: the id of a person; `at` is midnight, UTC."""

    kind = models.CharField(max_length=8, choices=Kind.choices)
    at = models.DateTimeField()
    model = models.CharField(max_length=200, blank=True)
    key = models.CharField(max_length=64)
    count = models.PositiveIntegerField()
    input_tokens = models.BigIntegerField(default=0)
    output_tokens = models.BigIntegerField(default=0)
    zombie_tokens = models.BigIntegerField(default=0)
    cost = models.DecimalField(max_digits=24, decimal_places=10, default=0)

    class Meta:
        default_permissions = ()
        constraints = (
            models.UniqueConstraint(fields=("kind", "at", "model", "key"), name="figure_once"),
        )

    def __str__(self) -> str:
        return f"{self.kind} {self.at} {self.model} {self.key}"


class FigureHead(models.Model):
    """One row: how far the figures are, and who may go on."""

    id = models.PositiveSmallIntegerField(primary_key=True, default=1)
    done_until = models.DateTimeField(null=True)
    """Hours before it are complete; null: none is."""
    taken_at = models.DateTimeField(null=True)
    """When a process last set out to bring them up to date."""

    class Meta:
        default_permissions = ()

    def __str__(self) -> str:
        return f"until {self.done_until}"
