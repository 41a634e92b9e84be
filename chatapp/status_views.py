"""What people are told of the models, and banners that they have read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from django.http import HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.cache import cache_control
from django.views.decorators.http import require_POST, require_safe

from chatapp import services, switches
from chatapp.views import frame, person, signed_in

if TYPE_CHECKING:
    from django.http import HttpRequest, HttpResponse

KEPT_S: Final = 90 * 86_400
MOST: Final = 20
"""Banners that a cookie remembers, the latest."""


@signed_in
@require_safe
@cache_control(private=True, no_cache=True)
async def status(request: HttpRequest) -> HttpResponse:
    """Each model that this person may ask, and what operators say of it."""
    user = await person(request)
    context = await frame(user)
    lines = [(name, switches.of(name)) for name in services.models_of(user)]
    return render(request, "status.html", context | {"lines": lines})


@signed_in
@require_POST
async def dismiss(request: HttpRequest, banner_id: int) -> HttpResponse:
    """This browser has seen it. A cookie, because it says nothing of the person."""
    before = [one for one in request.COOKIES.get(switches.DISMISSED, "").split(".") if one]
    gone = [*(one for one in before if one.isdigit()), str(banner_id)][-MOST:]
    back = request.POST.get("next", "")
    if not url_has_allowed_host_and_scheme(back, allowed_hosts=None):
        back = reverse("home")
    reply = HttpResponseRedirect(back)
    reply.set_cookie(
        switches.DISMISSED,
        ".".join(gone),
        max_age=KEPT_S,
        httponly=True,
        samesite="Lax",
        secure=request.is_secure(),
    )
    return reply
