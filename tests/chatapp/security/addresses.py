"""Every address of the site, and what it answers to whom, as one table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import urlencode

if TYPE_CHECKING:
    from collections.abc import Callable

METHODS: Final = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
SAFE: Final = {"GET", "HEAD", "OPTIONS"}
NOBODIES: Final = ("anonymous", "revoked session", "revoked key", "wrong key")
PEOPLE: Final = ("other", "staff", "superuser", "owner")
# Owners last: what they are let do, nobody before them may have done.
CALLERS: Final = (*NOBODIES, "other's key", "other", "staff", "superuser", "owner's key", "owner")
TOKEN: Final = "a" * 32
"""Of CSRF: every caller sends it, as a page would, so that no refusal is owed to its lack."""
SENT: Final = urlencode({"text": "hello", "key": "k"}).encode()


@dataclass(frozen=True, slots=True)
class Rule:
    """What an address answers, by method (`*`: all others), to whoever may call it."""

    kind: Callable[[str, str, int], int]
    answers: dict[str, int]
    body: bytes = b"{}"

    def expected(self, caller: str, method: str) -> int:
        given = self.answers.get(method, self.answers.get("*", 405))
        return self.kind(caller, method, given)


def public(caller: str, method: str, given: int) -> int:
    return given


def entrance(caller: str, method: str, given: int) -> int:
    """Who has signed in is led on by the form."""
    return 302 if caller in PEOPLE and method not in SAFE else given


def page(caller: str, method: str, given: int) -> int:
    """For sessions. Nobodies are sent to sign in, and so are keys: pages are no API. A text that
    came with it, as one does here, is given back instead."""
    if caller in PEOPLE:
        return given
    return 403 if method == "POST" else 302


def page_of_allauth(caller: str, method: str, given: int) -> int:
    """It has no box for a text: who has not signed in is sent to."""
    return given if caller in PEOPLE else 302


def own_page(caller: str, method: str, given: int) -> int:
    """Somebody else's is not there, for staff as well: they have the admin."""
    if caller in PEOPLE and caller != "owner" and given != 405:
        return 404
    return page(caller, method, given)


def own_form(caller: str, method: str, given: int) -> int:
    """By any other method it leads back to its page, whosever that is."""
    return own_page(caller, method, given) if method == "POST" else 302


def api(caller: str, method: str, given: int) -> int:
    return 401 if caller in NOBODIES and given != 405 else given


def own_api(caller: str, method: str, given: int) -> int:
    if caller in ("other", "other's key", "staff", "superuser") and given != 405:
        return 404
    return api(caller, method, given)


def line(caller: str, method: str, given: int) -> int:
    """One for each person's own things: what is on it is asked for one by one (test_lines.py)."""
    return 401 if caller in NOBODIES and given == 200 else given


def probe(caller: str, method: str, given: int) -> int:
    """For staff, by whatever credential."""
    if given != 405 and caller not in ("staff", "superuser"):
        return 401 if caller in NOBODIES else 403
    return given


def any_staff(caller: str, method: str, given: int) -> int:
    return given if caller in ("staff", "superuser") else 302


def admin(caller: str, method: str, given: int) -> int:
    """Who is not of the staff is sent away; staff without a permission is refused."""
    if caller == "staff" and given != 405:
        return 403
    return any_staff(caller, method, given)


def hidden_admin(caller: str, method: str, given: int) -> int:
    return 404 if caller == "staff" else any_staff(caller, method, given)


def admin_entrance(caller: str, method: str, given: int) -> int:
    """Nobodies are sent to the site's own; who is somebody, but not of the staff, is refused."""
    return 403 if caller in ("other", "owner") else any_staff(caller, method, given)


LOOK: Final = {"GET": 200, "HEAD": 200}
FORM: Final = {"GET": 200, "HEAD": 200, "OPTIONS": 200, "POST": 200, "PUT": 200}
ASK: Final = b'{"model": "fast", "input": "hello"}'
ANSWERING: Final = 409
"""The owner is let in, and told that the chat is still answering."""

TABLE: Final[dict[str, Rule]] = {
    "": Rule(page, LOOK),
    "metrics": Rule(public, {"*": 404}),  # unless METRICS_TOKEN or METRICS_FROM say otherwise
    "chats/": Rule(page, LOOK),
    "chats/new": Rule(page, {"*": 302}),
    "chats/<uuid:chat_id>/": Rule(own_page, LOOK),
    "chats/<uuid:chat_id>/send": Rule(own_form, {"POST": ANSWERING}),
    "chats/<uuid:chat_id>/settings": Rule(own_page, {"*": 200, "POST": 302}),
    "chats/<uuid:chat_id>/pin": Rule(own_page, {"*": 302}),
    "chats/<uuid:chat_id>/delete": Rule(own_page, {"*": 302}),
    "chats/<uuid:chat_id>/restore": Rule(page, {"*": 302}),  # of a chat that is not theirs: nothing
    "chats/<uuid:chat_id>/export.<str:kind>": Rule(own_page, LOOK),
    "responses/<str:response_id>/stop": Rule(own_page, {"*": 302}),
    "responses/<str:response_id>/retry": Rule(own_page, {"POST": ANSWERING, "*": 302}),
    "messages/<int:message_id>/edit": Rule(own_form, {"POST": ANSWERING}),
    "messages/<int:message_id>/rewrite": Rule(own_form, {"POST": ANSWERING}),
    "messages/<int:message_id>/regenerate": Rule(own_form, {"POST": ANSWERING}),
    "messages/<int:message_id>/continue": Rule(own_form, {"POST": ANSWERING}),
    "messages/<int:message_id>/choose": Rule(own_form, {"POST": 302}),
    "pictures/<int:picture_id>": Rule(own_page, LOOK),
    "account/login/": Rule(entrance, FORM),
    "account/logout/": Rule(public, LOOK | {"OPTIONS": 200, "POST": 302}),
    "account/password/": Rule(page_of_allauth, FORM),
    "account/": Rule(page, LOOK),
    "account/preferences": Rule(page, {"POST": 302}),
    "account/keys": Rule(page, {"POST": 200}),
    "account/keys/<int:key_id>/revoke": Rule(own_page, {"POST": 302}),
    "account/sessions/end": Rule(page, {"POST": 302}),
    "account/sessions/<int:session_id>/end": Rule(own_page, {"POST": 302}),
    # Whoever they are is asked for their password first (test_account_data.py).
    "account/data/": Rule(page, {"GET": 302, "HEAD": 302}),
    "account/data/export": Rule(page, {"POST": 302}),
    "account/data/erase": Rule(page, {"POST": 302}),
    "account/again/": Rule(page_of_allauth, FORM),
    # Between password and page, where nobody of this table is; and changes that want proof first.
    "account/code/": Rule(public, {"*": 302}),
    "account/code/again/": Rule(page_of_allauth, {"*": 302}),
    "account/codes/": Rule(public, {"*": 302}),
    "account/codes/off/": Rule(page_of_allauth, {"*": 404}),  # nobody here is asked for codes
    "account/recovery/": Rule(page_of_allauth, {"GET": 404, "HEAD": 404, "OPTIONS": 200}),
    "account/recovery/new/": Rule(public, {"*": 302}),
    "account/recovery/codes.txt": Rule(page_of_allauth, {"*": 404}),
    "account/inactive/": Rule(public, LOOK | {"OPTIONS": 200}),
    "account/signup/": Rule(entrance, {"*": 200}),
    "account/email/": Rule(page_of_allauth, LOOK | {"OPTIONS": 200, "POST": 302, "PUT": 302}),
    "account/email/sent/": Rule(public, LOOK | {"OPTIONS": 200}),
    r"^account/email/(?P<key>[-:\w]+)/$": Rule(
        public, {"GET": 400, "HEAD": 400, "OPTIONS": 200, "POST": 404}
    ),
    "account/forgotten/": Rule(public, {"*": 200}),
    "account/forgotten/sent/": Rule(public, LOOK | {"OPTIONS": 200}),
    r"^account/forgotten/(?P<uidb36>[0-9A-Za-z]+)-(?P<key>.+)/$": Rule(public, {"*": 200}),
    "account/forgotten/done/": Rule(public, LOOK | {"OPTIONS": 200}),
    "status/": Rule(page, LOOK),
    "banners/<int:banner_id>/dismiss": Rule(page, {"POST": 302}),
    "healthz": Rule(public, {"*": 200}),
    "readyz": Rule(public, {"*": 503}),  # nobody takes jobs in this test
    "^api/": Rule(public, {"*": 404}),
    "api/": Rule(public, {"*": 404}),
    "api/openapi.json": Rule(public, {"*": 200}),
    "api/events": Rule(line, {"GET": 200}),
    "api/responses": Rule(api, {"POST": 202}, ASK),
    "api/responses/<response_id>": Rule(own_api, {"GET": 200}),
    "api/responses/<response_id>/events": Rule(own_api, {"GET": 200}),
    "api/responses/<response_id>/leave": Rule(own_api, {"POST": 204}),
    "api/responses/<response_id>/cancel": Rule(own_api, {"POST": 200}),
    "api/chats": Rule(api, {"GET": 200, "POST": 201}),
    "api/chats/<uuidstr:chat_id>": Rule(own_api, {"GET": 200, "PATCH": 200, "DELETE": 204}),
    "api/chats/<uuidstr:chat_id>/context": Rule(own_api, {"GET": 200}),
    "api/chats/<uuidstr:chat_id>/messages": Rule(
        own_api, {"GET": 200, "POST": ANSWERING}, b'{"text": "hello"}'
    ),
    "api/messages/<message_id>": Rule(own_api, {"PATCH": ANSWERING}, b'{"text": "hello"}'),
    "api/messages/<message_id>/edit": Rule(own_api, {"POST": ANSWERING}, b'{"text": "hello"}'),
    "api/messages/<message_id>/regenerate": Rule(own_api, {"POST": ANSWERING}),
    "api/messages/<message_id>/continue": Rule(own_api, {"POST": ANSWERING}),
    "api/messages/<message_id>/choose": Rule(own_api, {"POST": 200}),
    "diag/stream": Rule(probe, {"GET": 200}),
    "diag/report": Rule(probe, {"GET": 200}),
    "admin/": Rule(any_staff, {"*": 200}),
    "admin/models/": Rule(admin, {"*": 200}),
    "admin/dashboard/": Rule(admin, {"*": 200}),
    "admin/live/": Rule(admin, {"*": 200, "POST": 302}),
    "admin/quotas/": Rule(admin, {"*": 200}),
    "admin/doctor/": Rule(admin, {"*": 200, "POST": 400}),
    "admin/incidents/": Rule(admin, {"*": 200, "POST": 302}),
    "admin/login/": Rule(admin_entrance, FORM | {"GET": 302}),
    "admin/logout/": Rule(any_staff, {"POST": 200, "OPTIONS": 200}),
    "admin/password_change/": Rule(any_staff, FORM),
    "admin/password_change/done/": Rule(any_staff, LOOK | {"OPTIONS": 200}),
    "admin/autocomplete/": Rule(any_staff, {"GET": 403, "HEAD": 403, "OPTIONS": 200}),
    "admin/jsi18n/": Rule(any_staff, LOOK | {"OPTIONS": 200}),
    "admin/r/<path:content_type_id>/<path:object_id>/": Rule(any_staff, {"*": 404}),
    "admin/^(?P<app_label>chatapp|auth|account)/$": Rule(hidden_admin, {"*": 200}),
    "admin/(?P<url>.*)$": Rule(any_staff, {"*": 404}),
    "admin/chatapp/response/<path:response_id>/stop/": Rule(admin, {"POST": 302}),
    "admin/chatapp/response/<path:response_id>/text/": Rule(admin, {"POST": 200}),
    "admin/chatapp/response/<path:response_id>/flag/": Rule(admin, {"POST": 302}),
    "admin/chatapp/response/export/": Rule(admin, {"POST": 200}),
    "admin/chatapp/chat/<uuid:chat_id>/text/": Rule(admin, {"POST": 200}),
    "admin/chatapp/user/<id>/password/": Rule(admin, {"*": 200}),
}
READ_ONLY: Final = ("chatapp/response", "chatapp/auditevent", "chatapp/chat", "chatapp/apikey")
EDITED: Final = ("chatapp/user", "chatapp/plan", "auth/group", "account/emailaddress")
for _model in (*READ_ONLY, *EDITED):
    _read_only = _model in READ_ONLY
    _one = f"admin/{_model}/<path:object_id>"
    # A person with keys cannot be deleted: keys cannot.
    _delete = {"*": 403} if _read_only else {"*": 200, "POST": 403 if "user" in _model else 302}
    TABLE.update(
        {
            f"admin/{_model}/": Rule(admin, {"*": 200}),
            f"admin/{_model}/add/": Rule(admin, {"*": 403 if _read_only else 200}),
            f"{_one}/": Rule(any_staff, {"*": 302}),
            f"{_one}/change/": Rule(admin, {"*": 200, "POST": 403} if _read_only else {"*": 200}),
            f"{_one}/history/": Rule(admin, {"*": 200}),
            f"{_one}/delete/": Rule(admin, _delete),
        }
    )

ASGI: Final = {
    r"^api/responses/(?P<response_id>[^/]+)/events$": "api/responses/<response_id>/events",
    r"^api/events$": "api/events",
    r"^api/responses$": "api/responses",
    r"^api/chats/[^/]+/messages$": "api/chats/<uuidstr:chat_id>/messages",
    r"^api/messages/[^/]+/(?:edit|regenerate|continue)$": "api/messages/<message_id>/edit",
    r"^api/": "^api/",
    r"^diag/stream$": "diag/stream",
    r"^diag/report$": "diag/report",
    "": "",
}
"""The routes before Django's, and one of the addresses above that passes through each."""
ASGI_ALONE: Final = {"diag/stream", "diag/report"}
"""Django knows nothing of these."""
