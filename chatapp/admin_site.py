"""Stock admin with some pages more, which are no rows of a table.

Apart from `chatapp.admin`, which is loaded to register with this site and so needs it whole.
"""

from __future__ import annotations

from functools import partial, wraps
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from allauth.account.decorators import secure_admin_login
from allauth.mfa.models import Authenticator
from allauth.usersessions.models import UserSession
from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.http.response import HttpResponseBase
from django.template.response import TemplateResponse
from django.urls import path, reverse

from chatapp.acting import acting

if TYPE_CHECKING:
    from django.http import HttpRequest, HttpResponse
    from django.urls import URLPattern, URLResolver


class Page(NamedTuple):
    """One of our own. `module.page(request)` gives its context, or a whole answer."""

    address: str
    name: str
    title: str
    module: str
    template: str


PAGES: Final = (
    Page(
        *("models", "language_models", "Language models"),
        *("chatapp.admin.models_page", "admin/language_models.html"),
    ),
    Page(
        *("dashboard", "dashboard", "Dashboard"),
        *("chatapp.admin.dashboard", "admin/dashboard.html"),
    ),
    Page(*("live", "live", "Live"), *("chatapp.admin.live_page", "admin/live.html")),
    Page(
        *("quotas", "quotas", "Near the limit"),
        *("chatapp.admin.quotas_page", "admin/quotas.html"),
    ),
    Page(
        *("incidents", "incidents", "Incidents"),
        *("chatapp.admin.incidents", "admin/incidents.html"),
    ),
    Page(
        *("doctor", "stream_doctor", "Stream doctor"),
        *("chatapp.admin.doctor_page", "admin/stream_doctor.html"),
    ),
)
HIDDEN: Final = {UserSession, Authenticator}


class Site(admin.AdminSite):
    site_header = site_title = "Unbroken"

    def register(self, model_or_iterable: Any, admin_class: Any = None, **options: Any) -> None:
        """All but two of allauth's pages: deleting a session there would sign nobody out, and the
        one of authenticators shows their secrets."""
        # The decorator that registers them hands over a tuple.
        if HIDDEN.isdisjoint((model_or_iterable, *_iterated(model_or_iterable))):
            super().register(model_or_iterable, admin_class, **options)

    def get_urls(self) -> list[URLResolver | URLPattern]:
        pages = [
            path(f"{page.address}/", self.admin_view(partial(self.show, page)), name=page.name)
            for page in PAGES
        ]
        return [*pages, *super().get_urls()]  # before stock admin's last one, which takes all

    def admin_view(self, view: Any, cacheable: bool = False) -> Any:
        """What signals tell the trail of (chatapp/auth/rights.py) is done by who is signed in."""

        @wraps(view)
        def by_them(request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
            with acting(request.user.get_username()):
                return view(request, *args, **kwargs)

        return super().admin_view(by_them, cacheable)

    def login(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """By the site's own page, which counts attempts; stock admin's would let anyone guess."""
        view: HttpResponse = secure_admin_login(super().login)(request, extra_context)
        return view

    def get_app_list(self, request: HttpRequest, app_label: str | None = None) -> list[Any]:
        """With the page in our own section, of the index as of the side bar."""
        apps: list[Any] = super().get_app_list(request, app_label)
        ours = next((app for app in apps if app["app_label"] == "chatapp"), None)
        if ours is not None and _may_see(request):
            entries = [_entry(page) for page in PAGES]
            models = [*ours["models"], *entries]
            ours["models"] = sorted(models, key=lambda model: str(model["name"]))
        return apps

    def show(self, page: Page, request: HttpRequest) -> HttpResponseBase:
        if not _may_see(request):
            raise PermissionDenied
        # Not at the head: it asks for tables, and this module is loaded before they are known.
        context = import_module(page.module).page(request)
        if isinstance(context, HttpResponseBase):
            return context
        context = {**self.each_context(request), "title": page.title, **context}
        return TemplateResponse(request, page.template, context)


def _entry(page: Page) -> dict[str, Any]:
    """As stock admin lists a model."""
    return {
        "name": page.title,
        "object_name": page.name,
        "admin_url": reverse(f"admin:{page.name}"),
        "add_url": None,
        "view_only": True,
        "perms": {"view": True},
        "model": None,
    }


def _may_see(request: HttpRequest) -> bool:
    return request.user.has_perm("chatapp.view_response")


def _iterated(model_or_iterable: Any) -> tuple[Any, ...]:
    return () if isinstance(model_or_iterable, type) else tuple(model_or_iterable)
