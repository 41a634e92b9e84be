"""Steer while a provider is in trouble: switch a model, tell people. Each leaves an audit entry."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from django.db import transaction
from django.utils import timezone

from chatapp import audit, catalog, switches
from chatapp.finalize import plain
from chatapp.models import Banner, ModelSwitch, WorkerDrain

KEPT: Final = timedelta(days=7)


class NoFallback(Exception):
    """Its entry in the models file names none."""


def switch(name: str, *, state: str, text: str, by: str) -> None:
    """In force in all processes within `switches.FRESH_S`, for what is asked from then on.

    Raises KeyError for a model that is not declared, NoFallback.
    """
    model = catalog.models()[name]
    wanted = ModelSwitch.State(state)
    if wanted is ModelSwitch.State.FALLBACK and not model.fallback:
        raise NoFallback(name)
    with transaction.atomic():
        values = {"state": wanted, "text": plain(text.strip())[:500], "by": by}
        ModelSwitch.objects.update_or_create(name=name, defaults=values | {"at": timezone.now()})
        audit.model_switched(name, actor=by, state=str(wanted))
    switches.forget()


def drain(worker: str, *, by: str, drained: bool = True) -> None:
    """It takes no more jobs from its next sweep on, and ends what it runs. Or it takes some again.

    Safe to repeat. Of workers that went long ago nothing is kept.
    """
    with transaction.atomic():
        WorkerDrain.objects.filter(at__lt=timezone.now() - KEPT).delete()
        if drained:
            values = {"by": by, "at": timezone.now()}
            WorkerDrain.objects.update_or_create(worker=worker, defaults=values)
        else:
            WorkerDrain.objects.filter(worker=worker).delete()
        audit.worker_drained(worker, actor=by, drained=drained)
    switches.forget()


def put_up(*, text: str, language: str, by: str) -> Banner:
    """A banner, as typed: plain text."""
    with transaction.atomic():
        banner = Banner.objects.create(
            text=plain(text.strip())[:500], language=language, by=by, at=timezone.now()
        )
        audit.banner_changed(actor=by, change="put up", banner=banner.pk)
    switches.forget()
    return banner


def take_down(banner_id: int, *, by: str) -> None:
    """Safe to repeat."""
    with transaction.atomic():
        if Banner.objects.filter(pk=banner_id).delete()[0]:
            audit.banner_changed(actor=by, change="taken down", banner=banner_id)
    switches.forget()
