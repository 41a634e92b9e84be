"""What operators say and do while a provider is in trouble."""

from __future__ import annotations

from django.db import models

from chatapp.languages import LANGUAGES


class ModelSwitch(models.Model):
    """One model of the models file that is, or was, not simply in use."""

    class State(models.TextChoices):
        ON = "on", "in use"
        FALLBACK = "fallback", "its fallback answers"
        OFF = "off", "off"

    name = models.CharField(max_length=200, primary_key=True)
    state = models.CharField(max_length=8, choices=State.choices, default=State.ON)
    text = models.CharField(max_length=500, blank=True)
    """For people, as typed: on /status, and where a question is refused."""
    by = models.CharField(max_length=150)
    """User name."""
    at = models.DateTimeField()

    class Meta:
        default_permissions = ()
        permissions = (("steer_models", "Can switch models, drain workers and set banners"),)

    def __str__(self) -> str:
        return f"{self.name}: {self.state}"


class WorkerDrain(models.Model):
    """A worker that is to take no more jobs. Names are made anew with each process."""

    worker = models.CharField(max_length=200, primary_key=True)
    by = models.CharField(max_length=150)
    at = models.DateTimeField()

    class Meta:
        default_permissions = ()

    def __str__(self) -> str:
        return self.worker


class Banner(models.Model):
    """A sentence over every page of the site, until it is taken down or dismissed."""

    text = models.CharField(max_length=500)
    language = models.CharField(max_length=8, blank=True, choices=LANGUAGES)
    """Whose pages show it; empty: all."""
    by = models.CharField(max_length=150)
    at = models.DateTimeField()

    class Meta:
        default_permissions = ()
        ordering = ("at", "id")

    def __str__(self) -> str:
        return f"{self.at:%Y-%m-%d %H:%M} {self.language}"
