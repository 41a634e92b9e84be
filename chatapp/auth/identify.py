"""Who is asking: a bearer key or a session, checked the same way for requests and for streams.

Everything here that is not a coroutine touches the database and belongs on a database thread.
"""

from __future__ import annotations

import secrets
import time
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from typing import Any, Final, Literal

from django.conf import settings
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
from django.contrib.sessions.models import Session
from django.db import DatabaseError, connection
from django.http import HttpRequest, HttpResponse
from django.middleware.csrf import CsrfViewMiddleware
from django.utils import timezone
from django.utils.crypto import constant_time_compare

from chatapp.middleware.admission import visit_of
from chatapp.middleware.threads import on_database_thread
from chatapp.models import ApiKey, Plan, User

PRINCIPAL: Final = "chatapp.principal"
"""Where an ASGI scope keeps who was found to be asking."""
KEY_MARK: Final = "ub_"
PREFIX_CHARS: Final = 11
"""`ub_` and eight characters: shown in lists, looked up by."""
SECRET_BYTES: Final = 32
USE_NOTED_EVERY_S: Final = 60.0
"""A key's last use is written at most this often per process: a script sends many requests."""
_OWNER: Final = tuple(
    field.attname
    for field in User._meta.concrete_fields
    if field.attname in {"id", "username", "password", "is_active", "plan_id"}
)
"""Of a key's owner only these are read, in the order that `from_db` expects; Django reads others
when somebody asks for them."""
_PLAN: Final = tuple(
    field.attname
    for field in Plan._meta.concrete_fields
    if field.attname in {"id", "max_generations", "max_output_tokens_per_day", "model_names"}
)
_PREFIX: Final = "(the prefix)"
_noted_s: Final[dict[int, float]] = {}


@dataclass(frozen=True, slots=True)
class Principal:
    """A person, and the credential that says so."""

    user: User
    kind: Literal["session", "key"]
    credential: str
    """Primary key of the session, or of the key."""

    @property
    def login(self) -> str:
        """Names this login in presences without giving its secret away (PROTOCOL 7)."""
        if self.kind == "key":
            return f"k{self.credential}"
        return "s" + sha256(self.credential.encode()).hexdigest()[:16]


def make_key(user: User, name: str = "") -> str:
    """A new key for `user`. Only its hash is stored: this is the one time that it can be shown."""
    prefix = KEY_MARK + secrets.token_hex(4)
    key = f"{prefix}_{secrets.token_urlsafe(SECRET_BYTES)}"
    ApiKey.objects.create(user=user, name=name, prefix=prefix, digest=_digest(key))
    return key


def by_key(key: str) -> Principal | None:
    """The owner of a bearer key that is neither revoked nor its owner inactive."""
    sql, params = _key_query()
    prefix = key[:PREFIX_CHARS]
    with connection.cursor() as cursor:
        cursor.execute(sql, [prefix if value is _PREFIX else value for value in params])
        row = cursor.fetchone()
    # Without a row the comparison is done all the same: both kinds of wrong take as long.
    pk, digest, *rest = row or (0, _digest(""))
    if not constant_time_compare(digest, _digest(key)) or row is None:
        return None
    _note_use(pk)
    user = User.from_db(None, _OWNER, rest[: len(_OWNER)])
    if user.plan_id is not None:
        user.plan = Plan.from_db(None, _PLAN, rest[len(_OWNER) :])
    return Principal(user, "key", str(pk))


@cache
def _key_query() -> tuple[str, tuple[Any, ...]]:
    """Compiled once: Django takes 0.4 ms to do so, and scripts send a key with each request."""
    columns = ["pk", "digest", *(f"user__{name}" for name in _OWNER)]
    columns += [f"user__plan__{name}" for name in _PLAN]
    rows = ApiKey.objects.usable().filter(prefix=_PREFIX).order_by().values_list(*columns)
    return rows.query.sql_with_params()


def _note_use(pk: int) -> None:
    now_s = time.monotonic()
    if now_s - _noted_s.get(pk, -USE_NOTED_EVERY_S) >= USE_NOTED_EVERY_S:
        _noted_s[pk] = now_s
        # A database that takes no writes just now still answers who it is.
        with suppress(DatabaseError):
            ApiKey.objects.filter(pk=pk).update(last_used_at=timezone.now())


def by_session(session_key: str) -> Principal | None:
    """The person of a session that has not expired and whose password was not changed since."""
    session = Session.objects.filter(
        session_key=session_key, expire_date__gt=timezone.now()
    ).first()
    data: dict[str, Any] = session.get_decoded() if session else {}
    if data.get(BACKEND_SESSION_KEY) not in settings.AUTHENTICATION_BACKENDS:
        return None
    user = User.objects.filter(pk=data[SESSION_KEY], is_active=True).first()
    told = data.get(HASH_SESSION_KEY, "")
    if user is None or not constant_time_compare(told, user.get_session_auth_hash()):
        return None
    return Principal(user, "session", session_key)


def identify(authorization: str, session_key: str) -> Principal | None:
    """By the Authorization header if there is one, else by the session cookie."""
    if "\0" in authorization or "\0" in session_key:
        return None  # nobody's, and PostgreSQL would not even look for it
    if authorization:
        scheme, _, token = authorization.partition(" ")
        return by_key(token.strip()) if scheme.lower() == "bearer" and token else None
    return by_session(session_key) if session_key else None


_identify_in_thread = on_database_thread(identify)


class CsrfRefused(Exception):
    """A session spoke without the token that proves it was the page that asked."""


async def api_auth(request: HttpRequest) -> Principal | None:
    """For django-ninja: the caller of an API request, or None (401).

    Raises CsrfRefused (403) for a session without a valid token; bearer keys need none. Raises
    TooMany (429) for somebody who has too many requests under way.
    """
    authorization = request.headers.get("Authorization", "")
    session_key = request.COOKIES.get(settings.SESSION_COOKIE_NAME, "")
    principal = await _identify_in_thread(authorization, session_key)
    if principal is None:
        return None
    if principal.kind == "session" and (reason := _csrf_failure(request)):
        raise CsrfRefused(reason)
    request.user = principal.user
    scope = getattr(request, "scope", None)
    if scope is not None:
        visit_of(scope).known_as(principal.user.pk)
        scope[PRINCIPAL] = principal  # whoever streams this request's answer need not ask again
    return principal


class _CsrfCheck(CsrfViewMiddleware):
    def _reject(self, request: HttpRequest, reason: str) -> Any:
        return reason


_csrf_check: Final[Any] = _CsrfCheck(lambda request: HttpResponse())


def _csrf_failure(request: HttpRequest) -> str | None:
    _csrf_check.process_request(request)
    # The middleware has let it pass, because API views are exempt there.
    request.csrf_processing_done = False  # type: ignore[attr-defined]
    reason: str | None = _csrf_check.process_view(request, None, (), {})
    return reason


def _digest(key: str) -> str:
    return sha256(key.encode()).hexdigest()
