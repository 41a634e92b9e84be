"""The account page: preferences, other places that are signed in, keys for scripts.

Signing in and up, passwords and mail addresses are allauth's views, with our templates.
"""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Any

from allauth.account import views as allauth_views
from allauth.account.internal.flows.reauthentication import is_reauthentication_required
from allauth.core.exceptions import ReauthenticationRequired
from django.conf import settings
from django.contrib import messages
from django.contrib.auth import alogout
from django.http import Http404, StreamingHttpResponse
from django.shortcuts import redirect, render
from django.utils import translation
from django.utils.text import slugify
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe

from chatapp import services
from chatapp.middleware.threads import on_database_thread
from chatapp.views import person, signed_in

if TYPE_CHECKING:
    from django.http import HttpRequest, HttpResponse, HttpResponseBase

    from chatapp.views import View


@signed_in
@require_safe
@never_cache
async def account(request: HttpRequest) -> HttpResponse:
    return await _page(request)


@signed_in
@require_POST
@never_cache
async def preferences(request: HttpRequest) -> HttpResponse:
    language = request.POST.get("language", "")
    try:
        await services.save_preferences(
            await person(request),
            theme=request.POST.get("theme", ""),
            language=language,
            announces=request.POST.get("announces", ""),
            enter_sends=request.POST.get("enter", "sends") == "sends",
            keeps_answering="keeps_answering" in request.POST,
        )
    except services.Refused as exc:
        return await _page(request, trouble=str(exc))
    # In the language that was chosen just now; none: as the browser asks for.
    with translation.override(language or translation.get_language_from_request(request)):
        messages.success(request, _("Your preferences are saved."))
    return redirect("account")


@signed_in
@require_POST
@never_cache
async def make_key(request: HttpRequest) -> HttpResponse:
    """The one page that shows the key: it is not stored, so there is nothing to redirect to."""
    try:
        key = await services.make_api_key(await person(request), request.POST.get("name", ""))
    except services.Refused as exc:
        return await _page(request, trouble=str(exc))
    return await _page(request, fresh_key=key)


@signed_in
@require_POST
async def revoke_key(request: HttpRequest, key_id: int) -> HttpResponse:
    if not await services.revoke_api_key(await person(request), key_id):
        raise Http404
    messages.success(request, _("The key is revoked. Whatever used it is refused from now on."))
    return redirect("account")


@signed_in
@require_POST
async def end_session(request: HttpRequest, session_id: int) -> HttpResponse:
    keep = request.session.session_key or ""
    if not await services.end_sessions(await person(request), keep=keep, session_id=session_id):
        raise Http404
    messages.success(request, _("That place is signed out."))
    return redirect("account")


@signed_in
@require_POST
async def end_other_sessions(request: HttpRequest) -> HttpResponse:
    keep = request.session.session_key or ""
    ended = await services.end_sessions(await person(request), keep=keep)
    said = ngettext("Signed out in {n} other place.", "Signed out in {n} other places.", ended)
    messages.success(request, said.format(n=ended))
    return redirect("account")


def asked_again(view: View) -> View:
    """Decorator: for people who gave their password, or a code, once more a moment ago. allauth
    asks for it and leads back; a browser that was left open must not be enough."""

    @wraps(view)
    async def call(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        if await on_database_thread(is_reauthentication_required)(request, app="account"):
            raise ReauthenticationRequired
        return await view(request, *args, **kwargs)

    return call


@signed_in
@require_safe
@asked_again
@never_cache
async def data(request: HttpRequest) -> HttpResponse:
    """Everything of theirs: take it along, or have it erased."""
    return await _data(request)


@signed_in
@require_POST
@asked_again
@never_cache
async def export_data(request: HttpRequest) -> HttpResponse:
    user = await person(request)
    file: Any = StreamingHttpResponse(
        services.export_user(user=user, by=user.username), content_type="application/zip"
    )
    name = f"unbroken-{slugify(user.username) or user.pk}.zip"
    file.headers["Content-Disposition"] = f'attachment; filename="{name}"'
    answer: HttpResponse = file
    return answer


@signed_in
@require_POST
@asked_again
async def erase(request: HttpRequest) -> HttpResponse:
    user = await person(request)
    if request.POST.get("name", "").strip() != user.username:
        return await _data(request, _("That is not your user name. Nothing was erased."))
    try:
        await services.erase_user(user=user, by=user.username)
    except services.Refused as exc:
        return await _data(request, str(exc))
    await alogout(request)
    messages.success(request, _("Your account and everything you said here is erased."))
    return redirect("account_login")


async def _data(request: HttpRequest, trouble: str = "") -> HttpResponse:
    context = {"user": await person(request), "trouble": trouble}
    return render(request, "account/data.html", context, status=400 if trouble else 200)


def forgotten(request: HttpRequest) -> HttpResponseBase:
    """A forgotten password is replaced by mail; a site that sends none says whom to ask."""
    if settings.SENDS_MAIL:
        view: Any = allauth_views.password_reset
        answer: HttpResponseBase = view(request)
        return answer
    return render(request, "account/no_mail.html")


async def _page(request: HttpRequest, *, fresh_key: str = "", trouble: str = "") -> HttpResponse:
    user = await person(request)
    current = request.session.session_key
    sessions = await services.sessions_of(user)
    context = {
        "user": user,
        "theme": user.theme,
        "sessions": sessions,
        "others": sum(session.session_key != current for session in sessions),
        "current": current,
        "codes_left": await services.codes_left(user),
        "keys": await services.usable_keys(user),
        "fresh_key": fresh_key,
        "trouble": trouble,
        "sends_mail": settings.SENDS_MAIL,
        "languages": settings.LANGUAGES,
    }
    status = 400 if trouble else 200
    return render(request, "account/account.html", context, status=status)
