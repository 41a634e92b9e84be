"""While a provider is in trouble: its models switched, people told, on one page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import HttpResponseRedirect
from django.urls import reverse

from chatapp import catalog
from chatapp.admin.read_only import actor_of
from chatapp.languages import LANGUAGES
from chatapp.models import Banner, ModelSwitch
from chatapp.services import incidents

if TYPE_CHECKING:
    from django.http import HttpRequest, HttpResponse


def may_steer(request: HttpRequest) -> bool:
    return request.user.has_perm("chatapp.steer_models")


def page(request: HttpRequest) -> dict[str, Any] | HttpResponse:
    """The page, or what follows a button of it."""
    if request.method == "POST":
        if not may_steer(request):
            raise PermissionDenied
        _act(request)
        return HttpResponseRedirect(reverse("admin:incidents"))
    switched = {one.name: one for one in ModelSwitch.objects.all()}
    return {
        "lines": [
            (model, switched.get(name), _states(bool(model.fallback)))
            for name, model in catalog.models().items()
        ],
        "put_up": Banner.objects.all(),
        "languages": LANGUAGES,
        "may_steer": may_steer(request),
    }


def _states(has_fallback: bool) -> list[tuple[str, str]]:
    wanted = [state for state in ModelSwitch.State if has_fallback or state != "fallback"]
    labels = {"on": "Use it", "fallback": "Let its fallback answer", "off": "Switch it off"}
    return [(str(state), labels[state]) for state in wanted]


def _act(request: HttpRequest) -> None:
    given, actor = request.POST, actor_of(request)
    name = given.get("model", "")
    if "state" in given:
        try:
            incidents.switch(name, state=given["state"], text=given.get("text", ""), by=actor)
        except (KeyError, ValueError):
            messages.error(request, f"There is no model {name!r}, or no such state.")
        except incidents.NoFallback:
            messages.error(request, f"There is no fallback of {name} in the models file.")
        else:
            messages.success(request, f"Switched: {name}. All processes know within a second.")
    elif "remove" in given:
        if given["remove"].isdigit():
            incidents.take_down(int(given["remove"]), by=actor)
    elif given.get("banner", "").strip():
        language = given.get("language", "")
        known = language if language in dict(LANGUAGES) else ""
        incidents.put_up(text=given["banner"], language=known, by=actor)
        messages.success(request, "The banner is up.")
