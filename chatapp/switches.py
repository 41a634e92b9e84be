"""What operators have switched, as this process knows it: at most `FRESH_S` old when it matters.

A question and a job each ask for it before they go by it (`refresh`): three small statements a
second and process while there is traffic, and a sweep without. So a switch is in force everywhere
within a second, and a drained worker knows with its next sweep, without a message that may be lost.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from django.db import Error
from django.utils.translation import get_language

from chatapp import catalog
from chatapp.middleware.threads import on_database_thread
from chatapp.models import Banner, ModelSwitch, WorkerDrain

if TYPE_CHECKING:
    from django.http import HttpRequest

    from relay import ModelConfig

FRESH_S: Final = 1.0
DISMISSED: Final = "dismissed"
"""The cookie that names the banners which this browser has put away: ids, with dots between."""


@dataclass(slots=True)
class _Known:
    switches: Mapping[str, ModelSwitch] = field(default_factory=dict)
    banners: tuple[Banner, ...] = ()
    drained: frozenset[str] = frozenset()
    read_s: float = -FRESH_S


_known = _Known()


async def refresh() -> None:
    """Read again what is not fresh. A database that is away leaves what was known."""
    if time.monotonic() - _known.read_s >= FRESH_S:
        _known.read_s = time.monotonic()  # others go by what is known meanwhile
        await _read()


def forget() -> None:
    """What was read counts as old: whoever has just changed it."""
    _known.read_s = -FRESH_S


@on_database_thread
def _read() -> None:
    try:
        switches = {one.name: one for one in ModelSwitch.objects.exclude(state="on")}
        banners = tuple(Banner.objects.all())
        drained = frozenset(WorkerDrain.objects.values_list("worker", flat=True))
    except Error:
        return
    _known.switches, _known.banners, _known.drained = switches, banners, drained


def of(name: str) -> ModelSwitch | None:
    """None: it is in use."""
    return _known.switches.get(name)


def takes_jobs(worker: str) -> bool:
    """False: it is drained. What it runs goes on."""
    return worker not in _known.drained


def is_off(name: str) -> bool:
    switch = of(name)
    return switch is not None and switch.state == ModelSwitch.State.OFF


def models() -> Mapping[str, ModelConfig]:
    """As the models file declares them, but for what is switched: such a model is not asked, and
    its fallbacks are, or nobody. Raises CatalogError."""
    declared = catalog.models()
    if not _known.switches:
        return declared
    return {name: _switched(model) for name, model in declared.items()}


def _switched(model: ModelConfig) -> ModelConfig:
    switch = of(model.name)
    if switch is None:
        return model
    if switch.state == ModelSwitch.State.OFF:
        return replace(model, resting=True, fallback=())
    return replace(model, resting=True)


def banners(request: HttpRequest) -> dict[str, Any]:
    """Context processor: what this page is to say. Asks nobody."""
    gone = request.COOKIES.get(DISMISSED, "").split(".")
    language = get_language() or ""
    shown = [
        banner
        for banner in _known.banners
        if str(banner.pk) not in gone and language.startswith(banner.language)
    ]
    return {"banners": shown}
