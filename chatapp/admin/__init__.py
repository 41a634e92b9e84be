"""Django admin: who asked what of whom, how the models do; people and their plans."""

from __future__ import annotations

from chatapp.admin.people import PersonAdmin, PlanAdmin
from chatapp.admin.records import page_of

__all__ = ["PersonAdmin", "PlanAdmin", "page_of"]
