"""What is kept: people, chats, messages, one record per response, keys, and the audit trail.

Reading rules are QuerySet methods; invariants are constraints. No row here changes another one.
"""

from __future__ import annotations

from chatapp.models.chats import Chat, ChatQuerySet
from chatapp.models.figures import Figure, FigureHead
from chatapp.models.flags import Flag
from chatapp.models.incidents import Banner, ModelSwitch, WorkerDrain
from chatapp.models.messages import Message, MessageHtml, MessageQuerySet
from chatapp.models.people import ApiKey, Plan, User
from chatapp.models.pictures import Picture
from chatapp.models.responses import FINAL, RUNNING, Response
from chatapp.models.trail import AppendOnly, AuditEvent, AuditHead, AuditSeal
from chatapp.models.visits import Visit

__all__ = [
    "FINAL",
    "RUNNING",
    "ApiKey",
    "AppendOnly",
    "AuditEvent",
    "AuditHead",
    "AuditSeal",
    "Banner",
    "Chat",
    "ChatQuerySet",
    "Figure",
    "FigureHead",
    "Flag",
    "Message",
    "MessageHtml",
    "MessageQuerySet",
    "ModelSwitch",
    "Picture",
    "Plan",
    "Response",
    "User",
    "Visit",
    "WorkerDrain",
]
