"""People of the staff, by what they may, and a recorded answer for them to look at."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

import pytest
from django.apps import apps
from django.contrib.auth.models import Group
from django.db import transaction
from django.test import Client
from django.utils import timezone

from chatapp.finalize import write
from chatapp.models import AuditEvent, Chat, Message, Response, User
from tests.chatapp.conftest import make_row
from tests.chatapp.test_finalize import outcome

if TYPE_CHECKING:
    from collections.abc import Callable

QUESTION = "what is steeped in hot water"
ANSWER = "a cup of tea"


@pytest.fixture
def staff(transactional_db: None) -> Callable[[str], Client]:
    """A browser of somebody of a group: `auditor`, `support` or `admin`."""
    migration = import_module("chatapp.migrations.0016_groups")
    migration.make_groups(apps, None)  # the test database is emptied after each test

    def member(group: str) -> Client:
        user = User.objects.create_user(f"{group}-person", is_staff=True)
        user.groups.add(Group.objects.get(name=group))
        client = Client()
        client.force_login(user)
        return client

    return member


@pytest.fixture
def answered(user: User, chat: Chat) -> Response:
    """An answer of ann's that has ended, in a chat."""
    request = make_row(user, chat=chat)
    request.request = request.request.replace("hello", QUESTION)
    request.save()
    asked = Message.objects.create(chat=chat, role="user", position=1, text=QUESTION)
    Message.objects.create(chat=chat, role="assistant", position=2, response=request, parent=asked)
    with transaction.atomic():
        write(outcome(request.pk, ANSWER), timezone.now())
    return Response.objects.get(pk=request.pk)


def reads() -> list[tuple[str, str]]:
    """(actor, response) of each reading of texts that the audit trail knows."""
    entries = AuditEvent.objects.filter(action="text read").order_by("id")
    return [(entry.actor, entry.response_id) for entry in entries]
