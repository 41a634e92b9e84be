"""Nobody reads what was said without an audit entry: every address of admin is tried for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest
from asgiref.sync import async_to_sync
from django.urls import URLPattern, URLResolver, get_resolver

from chatapp import audit
from chatapp.admin import page_of
from chatapp.models import AuditEvent, Chat, Message, Response
from tests.chatapp.admin.conftest import ANSWER, QUESTION, reads

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from django.test import Client

TITLE: Final = "a title made of words"
PROMPT: Final = "you are a teapot"
SECRETS: Final = (ANSWER, QUESTION, TITLE, PROMPT)


@pytest.fixture
def said(answered: Response, chat: Chat) -> Response:
    """An answer whose chat has a title and a prompt, too."""
    Chat.objects.filter(pk=chat.pk).update(title=TITLE, system_prompt=PROMPT)
    audit.created(answered, actor="ann", detail={})
    return answered


def admin_routes(patterns: Iterable[Any], before: str = "/") -> Iterator[str]:
    for pattern in patterns:
        address = before + str(pattern.pattern)
        if isinstance(pattern, URLResolver):
            yield from admin_routes(pattern.url_patterns, address)
        elif isinstance(pattern, URLPattern):
            yield address


def addresses(row: Response) -> list[str]:
    """Every route of admin, about that answer, its chat, its person and its entries."""
    found = []
    for route in admin_routes(get_resolver().url_patterns):
        if not route.startswith("/admin/") or "logout" in route:
            continue
        ids = {
            "response": row.pk.replace("_", "_5F"),
            "chat": str(row.chat_id),
            "user": str(row.user_id),
            "auditevent": str(AuditEvent.objects.filter(action="created").latest("pk").pk),
        }
        model = route.split("/")[3] if route.count("/") > 3 else ""
        for mark, value in {
            "<path:object_id>": ids.get(model, "1"),
            "<path:response_id>": row.pk,
            "<str:response_id>": row.pk,
            "<uuid:chat_id>": str(row.chat_id),
            "<id>": str(row.user_id),
            "<path:content_type_id>/<path:object_id>": "1/1",
            "^(?P<app_label>chatapp|auth|account)/$": "chatapp/",
            "(?P<url>.*)$": "nothing",
        }.items():
            route = route.replace(mark, value)  # noqa: PLW2901
        found.append(route)
        if route.endswith(("/response/", "/chat/", "/auditevent/", "/user/")):
            found += [f"{route}?q=tea", f"{route}?q={ANSWER.replace(' ', '+')}", f"{route}?o=-1"]
    return found


def whole(reply: Any) -> str:
    async def collected() -> bytes:
        return b"".join([piece async for piece in reply.streaming_content])

    data = async_to_sync(collected)() if reply.streaming else reply.content
    return str(data, "utf-8", "replace")


@pytest.mark.parametrize("group", ["support", "auditor", "admin"])
def test_every_address_of_admin_that_shows_a_text_is_noted(
    staff: Callable[[str], Client], said: Response, group: str
) -> None:
    browser = staff(group)
    showed = set()
    tried = addresses(said)
    assert len(tried) > 50
    for address in tried:
        for method in ("get", "post"):
            before = len(reads())
            reply = getattr(browser, method)(address)
            body = whole(reply)
            # What one has typed is in the search box again.
            shown = [secret for secret in SECRETS if secret in body and "q=" not in address]
            assert len(reads()) - before == (1 if shown else 0), (method, address, shown)
            if shown:
                showed.add((method, address))
    chat = f"/admin/chatapp/chat/{said.chat_id}"
    asked = {("post", f"/admin/chatapp/response/{said.pk}/text/"), ("post", f"{chat}/text/")}
    at_once = {("get", page_of(said.pk)), ("get", f"{chat}/change/")}
    assert showed == asked | (set() if group == "support" else at_once)


def test_other_staff_may_not_even_ask(staff: Callable[[str], Client], said: Response) -> None:
    from django.contrib.auth.models import Group, Permission

    Group.objects.get_or_create(name="support")
    browser = staff("support")
    group = Group.objects.get(name="support")
    group.permissions.remove(Permission.objects.get(codename="show_text"))
    assert "You may not read them." in browser.get(page_of(said.pk)).content.decode()
    for address in (
        f"/admin/chatapp/response/{said.pk}/text/",
        f"/admin/chatapp/chat/{said.chat_id}/text/",
    ):
        assert browser.post(address).status_code == 403
    assert reads() == []


def test_the_api_is_no_way_round(staff: Callable[[str], Client], said: Response) -> None:
    """Staff have no more there than anybody: what is not theirs is not there."""
    browser = staff("admin")
    message = Message.objects.filter(chat=said.chat_id).latest("pk").pk
    for address in (
        f"/api/responses/{said.pk}",
        f"/api/chats/{said.chat_id}",
        f"/api/chats/{said.chat_id}/messages",
        f"/chats/{said.chat_id}/",
        f"/chats/{said.chat_id}/export.md",
        f"/messages/{message}/edit",
    ):
        reply = browser.get(address, follow=True)
        body = reply.getvalue().decode()
        assert not any(secret in body for secret in SECRETS), address
