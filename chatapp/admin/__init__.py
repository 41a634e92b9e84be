"""Django admin: who asked what of whom, how the models do; people and their plans."""

from __future__ import annotations

from chatapp.admin.chats import ChatAdmin
from chatapp.admin.people import PersonAdmin, PlanAdmin
from chatapp.admin.read_only import page_of
from chatapp.admin.records import AuditEventAdmin
from chatapp.admin.responses import ResponseAdmin

__all__ = ["AuditEventAdmin", "ChatAdmin", "PersonAdmin", "PlanAdmin", "ResponseAdmin", "page_of"]
