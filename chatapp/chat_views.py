"""Pages and forms about chats as such: the list, looking for words, settings, deleting, files.

All of it works without scripts; static/chat/side.js and older.js fetch the same pages and take
from them what they need.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar
from uuid import UUID

from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.http import content_disposition_header, url_has_allowed_host_and_scheme
from django.views.decorators.cache import cache_control
from django.views.decorators.http import require_safe

from chatapp import catalog, services
from chatapp.chat_forms import Form
from chatapp.templatetags.words import word
from chatapp.views import frame, own_chat, person, signed_in
from relay import RecordUnavailable

if TYPE_CHECKING:
    from django.http import HttpRequest


N = TypeVar("N", int, float)
KINDS: Final = {
    "md": (services.as_markdown, "text/markdown; charset=utf-8"),
    "json": (services.as_json, "application/json"),
}


@signed_in
@require_safe
@cache_control(private=True, no_cache=True)
async def chat_list(request: HttpRequest) -> HttpResponse:
    """The chats with the words in `?q=`, or those that follow `?after=` in the list."""
    user = await person(request)
    query = request.GET.get("q", "").strip()
    context: dict[str, Any] = {"query": query}
    if query:
        context["found"] = await services.search(user=user, query=query)
    elif after := request.GET.get("after"):
        last = await own_chat(user, _uuid(after))
        context["page"] = await services.list_chats(user=user, after=last)
    else:
        context["page"] = await services.list_chats(user=user)
    return render(request, "chat/list.html", context | await frame(user))


@signed_in
@cache_control(private=True, no_cache=True)
async def chat_settings(request: HttpRequest, chat_id: UUID) -> HttpResponse:
    user = await person(request)
    chat = await own_chat(user, chat_id)
    before, trouble = Form.of(chat), ""
    form = before
    if request.method == "POST":
        form = Form.sent(request, before)
        try:
            await services.update_chat(chat=chat, **form.changed(before))
        except services.Refused as exc:
            trouble = f"{exc} {word('chats.not_changed')}"
            chat = await own_chat(user, chat_id)
        else:
            messages.success(request, word("chats.changed"))
            return redirect("chat", chat.pk)
    config = catalog.models().get(chat.model)
    models = services.models_of(user)
    known = models if chat.model in models else [chat.model, *models]
    context = {"form": form, "trouble": trouble, "limits": config, "models": known}
    page = context | await frame(user, chat)
    return render(request, "chat/settings.html", page, status=422 if trouble else 200)


@signed_in
async def chat_pin(request: HttpRequest, chat_id: UUID) -> HttpResponse:
    chat = await own_chat(await person(request), chat_id)
    if request.method == "POST":
        await services.update_chat(chat=chat, pinned=not chat.pinned)
    return redirect(_next(request) or reverse("chat", args=[chat.pk]))


@signed_in
async def chat_delete(request: HttpRequest, chat_id: UUID) -> HttpResponse:
    """It is hidden; the page that follows offers to bring it back."""
    chat = await own_chat(await person(request), chat_id)
    if request.method != "POST":
        return redirect("chat", chat.pk)
    await services.hide_chat(chat=chat)
    came_from = _next(request)
    return redirect(came_from if str(chat.pk) not in came_from and came_from else "home")


@signed_in
async def chat_restore(request: HttpRequest, chat_id: UUID) -> HttpResponse:
    user = await person(request)
    if request.method == "POST" and await services.restore_chat(user=user, chat_id=chat_id):
        return redirect("chat", chat_id)
    if request.method == "POST":
        messages.warning(request, word("chats.gone"))
    return redirect("home")


@signed_in
@require_safe
@cache_control(private=True, no_store=True)
async def chat_export(request: HttpRequest, chat_id: UUID, kind: str) -> HttpResponse:
    chat = await own_chat(await person(request), chat_id)
    if kind not in KINDS:
        raise Http404
    write, content_type = KINDS[kind]
    try:
        text = await write(chat=chat)
    except RecordUnavailable:
        return HttpResponse(word("chats.no_file"), status=503, headers={"Retry-After": "5"})
    name = content_disposition_header(True, services.file_name(chat, kind)) or ""
    return HttpResponse(
        text.encode("utf-8", "replace"),
        content_type=content_type,
        headers={"Content-Disposition": name, "X-Content-Type-Options": "nosniff"},
    )


def _next(request: HttpRequest) -> str:
    """Where the person came from, if that is a page of this site; else empty."""
    wanted = request.POST.get("next", "")
    return wanted if wanted and url_has_allowed_host_and_scheme(wanted, None) else ""


def _uuid(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError as exc:
        raise Http404 from exc
