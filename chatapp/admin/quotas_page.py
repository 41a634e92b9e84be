"""Who is near the limits of their plan."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.urls import reverse
from django.utils import timezone

from chatapp.services.near import near_limits

if TYPE_CHECKING:
    from django.http import HttpRequest


def page(request: HttpRequest) -> dict[str, Any]:
    may_change = request.user.has_perm("chatapp.change_user")
    return {
        "people": [
            (reverse("admin:chatapp_user_change", args=[one.pk]) if may_change else "", one)
            for one in near_limits(timezone.now())
        ],
        "may_see_plans": request.user.has_perm("chatapp.view_plan"),
    }
