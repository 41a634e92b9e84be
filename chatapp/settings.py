"""Django's settings; the one place that reads the environment.

Every variable is declared once, by `_env`, which also fills `SETTINGS_DOC`: the settings table of
the README is tested against it. Imports with an empty environment, so that type checkers and
`collectstatic` need none; what a server must have is asked for by chatapp/checks.py.
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import django_stubs_ext
import environ
from csp.constants import NONE, SELF
from django.core.exceptions import ImproperlyConfigured
from django.core.management.utils import get_random_secret_key

from chatapp import languages, logs, observing
from chatapp.meanings import REDACT as REDACT_DOC
from chatapp.meanings import RELAY_MEANINGS
from chatapp.meanings import TEXT_RETENTION_DAYS as RETENTION_DOC
from chatapp.middleware.admission import Limits
from relay import RelayConfig, read_address

if TYPE_CHECKING:
    from collections.abc import Callable

django_stubs_ext.monkeypatch()

T = TypeVar("T")
BASE_DIR: Final = Path(__file__).resolve().parent.parent
DATA_DIR: Final = BASE_DIR / ".data"


@dataclass(frozen=True, slots=True)
class Setting:
    """One variable of the environment, as the README shows it."""

    name: str
    default: str
    meaning: str


SETTINGS_DOC: list[Setting] = []
_reader = environ.Env()
# A developer's own file; a variable that is really set wins over it.
environ.Env.read_env(BASE_DIR / ".env")


def _env(
    read: Callable[..., T], name: str, default: T, meaning: str, *, shown: str | None = None
) -> T:
    SETTINGS_DOC.append(Setting(name, str(default) if shown is None else shown, meaning))
    try:
        return read(name, default=default)
    except ValueError as exc:
        raise ImproperlyConfigured(f"{name}: {exc}") from exc


def model_key(variable: str) -> str | None:
    """A provider's key, from the variable that `api_key_env` of the models file names."""
    return os.environ.get(variable) or None


# -- what a deployment says ------------------------------------------------------------------------
TEMPORARY_KEY_PREFIX: Final = "temporary-"

DEBUG = _env(_reader.bool, "DEBUG", False, "Django's debug mode; never in production")
SECRET_KEY = _env(
    _reader.str,
    "SECRET_KEY",
    # Good for one process that ends soon; a server with this one refuses to start (checks.py).
    TEMPORARY_KEY_PREFIX + get_random_secret_key(),
    "signs cookies; a long random text, the same for all processes",
    shown="none: required unless DEBUG",
)
ALLOWED_HOSTS: list[str] = _env(
    _reader.list,
    "ALLOWED_HOSTS",
    ["localhost", "127.0.0.1", "[::1]"],
    "host names this site answers to, separated by commas",
    shown="localhost,127.0.0.1,[::1]",
)
CSRF_TRUSTED_ORIGINS: list[str] = _env(
    _reader.list,
    "CSRF_TRUSTED_ORIGINS",
    [],
    "origins such as https://chat.example.org, when a proxy changes the host; separated by commas",
    shown="none",
)
TRUSTED_PROXIES: list[str] = _env(
    _reader.list,
    "TRUSTED_PROXIES",
    [],
    "addresses or networks of proxies whose X-Forwarded-For and -Proto are believed; "
    "separated by commas",
    shown="none",
)
SECURE_SSL_REDIRECT = _env(
    _reader.bool,
    "SECURE_SSL_REDIRECT",
    False,
    "send http:// on to https://; needs TRUSTED_PROXIES behind a proxy",
)
SECURE_HSTS_SECONDS = _env(
    _reader.int,
    "SECURE_HSTS_SECONDS",
    0 if DEBUG else 31_536_000,
    "how long browsers that came by https:// refuse http://; 0 = not at all",
    shown="31536000; 0 with DEBUG",
)
SIGN_UP = _env(_reader.bool, "SIGN_UP", False, "let whoever reaches the site open an account")
_EMAIL: dict[str, Any] = _env(
    _reader.email_url,
    "EMAIL_URL",
    "consolemail://" if DEBUG else "dummymail://",  # type: ignore[arg-type]  # as DATABASE_URL
    "the mail server, for forgotten passwords: smtp+tls://user:password@host:587",
    shown="none; the console with DEBUG",
)
DEFAULT_FROM_EMAIL = SERVER_EMAIL = _env(
    _reader.str, "DEFAULT_FROM_EMAIL", "unbroken@localhost", "sender of this site's mail"
)
WEB_CONCURRENCY = _env(
    _reader.int, "WEB_CONCURRENCY", 1, "web processes, as uvicorn reads it; not with SQLite"
)
_DATABASE: dict[str, Any] = _env(
    _reader.db_url,
    "DATABASE_URL",
    f"sqlite:///{DATA_DIR / 'db.sqlite3'}",  # type: ignore[arg-type]  # read as the environment's
    "the database: sqlite:////absolute/path or postgres://user:password@host/name",
    shown="sqlite: .data/db.sqlite3",
)
REDIS_URL = _env(
    lambda name, default: read_address(_reader.str(name, default=default)).url,
    "REDIS_URL",
    "redis://127.0.0.1:6379/0",
    "Redis or Valkey, where the logs live: redis://, rediss:// or unix:// for one server, "
    "redis+sentinel://host,host/name/0 or redis+cluster://host,host/ for several",
)
RELAY_MODELS = _env(
    _reader.str,
    "RELAY_MODELS",
    "",
    "path of the TOML file that declares the models, as in deploy/models.example.toml",
    shown="none",
)
RELAY_EMBEDDED = _env(
    _reader.bool,
    "RELAY_EMBEDDED",
    False,
    "run generations inside the web process, instead of `manage.py relay_worker`",
)

TITLES = _env(_reader.bool, "TITLES", True, "a model names each new chat after its first answer")
TITLE_MODEL = _env(
    _reader.str,
    "TITLE_MODEL",
    "",
    "the model of the models file that names chats; a small one will do",
    shown="none: the chat's own",
)
TEXT_RETENTION_DAYS = _env(_reader.int, *RETENTION_DOC)
REDACT = _env(_reader.str, *REDACT_DOC, shown="none")

# Per process. An office behind one address has a few hundred people with a page or two each; one
# person has a few devices with a page or two, and scripts. A request is short, a stream is not.
DOOR_LIMITS: Final = Limits(
    requests_per_address=_env(
        _reader.int,
        "MAX_REQUESTS_PER_ADDRESS",
        256,
        "requests of one address (IPv6: /64) that a process works on at a time; 0 = no limit",
    ),
    requests_per_user=_env(
        _reader.int,
        "MAX_REQUESTS_PER_USER",
        32,
        "requests of one person that a process works on at a time; 0 = no limit",
    ),
    streams_per_address=_env(
        _reader.int,
        "MAX_STREAMS_PER_ADDRESS",
        512,
        "open event streams from one address (IPv6: /64) in a process; 0 = no limit",
    ),
    streams_per_user=_env(
        _reader.int,
        "MAX_STREAMS_PER_USER",
        64,
        "open event streams of one person in a process; 0 = no limit",
    ),
)
BODY_TIMEOUT_S = _env(
    _reader.float,
    "BODY_TIMEOUT_S",
    60.0,
    "time a client has for sending the body of a request (under Daphne the proxy's limit alone)",
    shown="60",
)
OBSERVING: Final = observing.read(_env, _reader)


def _relay_config() -> RelayConfig:
    """Every field of RelayConfig as RELAY_<NAME>, read with the type of its default."""
    values: dict[str, Any] = {}
    readers = {int: _reader.int, float: _reader.float, str: _reader.str}
    for field in fields(RelayConfig):
        read = readers[type(field.default)]
        name = f"RELAY_{field.name.upper()}"
        shown = f"{field.default:g}" if isinstance(field.default, float) else str(field.default)
        values[field.name] = _env(
            read, name, field.default, RELAY_MEANINGS[field.name], shown=shown or "none"
        )
    return RelayConfig(**values)


RELAY: Final = _relay_config()

# -- database --------------------------------------------------------------------------------------
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
DATABASES: dict[str, dict[str, Any]] = {
    # Requests run on a few long-lived threads (middleware/threads.py): connections live as long.
    "default": {**_DATABASE, "CONN_MAX_AGE": None, "CONN_HEALTH_CHECKS": True}
}
if _DATABASE["ENGINE"] == "django.db.backends.sqlite3":
    # Several processes write: readers must not block the writer (WAL), a transaction takes the
    # write lock when it begins instead of failing half-way, and waits its turn for 5 seconds.
    DATABASES["default"]["OPTIONS"] = {
        "transaction_mode": "IMMEDIATE",
        "timeout": 5,
        "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;",
    }
    with contextlib.suppress(OSError):  # a read-only checkout only fails when it opens the file
        Path(_DATABASE["NAME"]).parent.mkdir(parents=True, exist_ok=True)
elif _DATABASE["ENGINE"] == "django.db.backends.postgresql":  # as long as there
    locks = {"options": "-c lock_timeout=5s"}
    DATABASES["default"]["OPTIONS"] = locks | _DATABASE.get("OPTIONS", {})

# -- applications ----------------------------------------------------------------------------------
INSTALLED_APPS = [
    "chatapp.apps.ChatappConfig",
    "chatapp.apps.SiteAdminConfig",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "servestatic",
    "django.contrib.staticfiles",
    "allauth",
    "allauth.account",
    "allauth.usersessions",
    "allauth.mfa",
    "csp",
]
# All of them run on the event loop: Django moves its own to a thread twice per request, which cost
# 16 thread hops before the view (chatapp/middleware/on_loop.py).
MIDDLEWARE = [
    "chatapp.middleware.problems.Problems",
    "chatapp.middleware.on_loop.Security",
    "chatapp.middleware.static_files.StaticFiles",
    "chatapp.middleware.on_loop.ContentSecurityPolicy",
    "chatapp.middleware.on_loop.Session",
    "chatapp.middleware.on_loop.Common",
    "chatapp.middleware.on_loop.Csrf",
    "chatapp.middleware.on_loop.Authentication",
    "chatapp.middleware.language.Language",
    "chatapp.middleware.on_loop.Messages",
    "chatapp.middleware.on_loop.Frames",
    "allauth.account.middleware.AccountMiddleware",
]
API_MIDDLEWARE = [
    "chatapp.middleware.problems.Problems",
    "chatapp.middleware.on_loop.Security",
    "chatapp.middleware.on_loop.Common",
    "chatapp.middleware.language.Language",
]
ROOT_URLCONF = "chatapp.urls"
ASGI_APPLICATION = "chatapp.asgi.application"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "chatapp.switches.banners",
            ],
            "builtins": ["django.templatetags.i18n"],
        },
    }
]
LANGUAGES = languages.LANGUAGES
LANGUAGE_CODE = languages.SOURCE
USE_I18N = True
TIME_ZONE = "UTC"
USE_TZ = True
APPEND_SLASH = True

# -- people ----------------------------------------------------------------------------------------
AUTH_USER_MODEL = "chatapp.User"
AUTHENTICATION_BACKENDS = ["allauth.account.auth_backends.AuthenticationBackend"]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}"}
    for name in (
        "UserAttributeSimilarityValidator",
        "MinimumLengthValidator",
        "CommonPasswordValidator",
        "NumericPasswordValidator",
    )
]
# Rows, not signed cookies: a session that was ended must be dead at once (law 15).
SESSION_ENGINE = "django.contrib.sessions.backends.db"
MESSAGE_STORAGE = "django.contrib.messages.storage.cookie.CookieStorage"
LOGIN_URL = "account_login"
LOGIN_REDIRECT_URL = "home"
ACCOUNT_ADAPTER = "chatapp.auth.adapter.Adapter"
ACCOUNT_LOGIN_METHODS = {"username"}
ACCOUNT_SIGNUP_FIELDS = ["username*", "email", "password1*"]
SENDS_MAIL: Final = "dummy" not in _EMAIL["EMAIL_BACKEND"]
globals().update(_EMAIL)
# An address is asked to prove itself, but nobody is kept out for the want of it.
ACCOUNT_EMAIL_VERIFICATION = "optional" if SENDS_MAIL else "none"
ACCOUNT_CHANGE_EMAIL = True
ACCOUNT_EMAIL_SUBJECT_PREFIX = ""
ACCOUNT_CONFIRM_EMAIL_ON_GET = False
ACCOUNT_LOGIN_ON_PASSWORD_RESET = False
# Whether a name or an address is known here is nobody's business.
ACCOUNT_PREVENT_ENUMERATION = True
ACCOUNT_LOGOUT_REDIRECT_URL = LOGIN_URL
ACCOUNT_PASSWORD_CHANGE_REDIRECT_URL = LOGIN_REDIRECT_URL
# Failures per address and per name; asking at all, right or wrong. REMOTE_ADDR is the door's.
ACCOUNT_RATE_LIMITS = {
    "login": "30/m/ip",
    "login_failed": "10/m/ip,5/5m/key",
    "signup": "10/m/ip",
    "reset_password": "10/m/ip,3/m/key",
    "manage_email": "10/m/user",
    "confirm_email": "1/3m/key",
}
MFA_ADAPTER = "chatapp.auth.second_step.SecondStepAdapter"
MFA_TOTP_ISSUER = "Unbroken"
MFA_TOTP_TOLERANCE = 1  # of 30 s, for a phone whose clock is a little off
# Addresses are optional here, and prove nothing about a person.
MFA_ALLOW_UNVERIFIED_EMAIL = True
CACHES = {"default": {"BACKEND": "chatapp.auth.attempts.Attempts", "LOCATION": REDIS_URL}}

# -- transport and browser -------------------------------------------------------------------------
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = not DEBUG
SESSION_COOKIE_SAMESITE = CSRF_COOKIE_SAMESITE = "Lax"
SECURE_CONTENT_TYPE_NOSNIFF = True
SECURE_REFERRER_POLICY = "same-origin"
# Probes come without TLS, and from within.
SECURE_REDIRECT_EXEMPT = [r"^healthz$", r"^readyz$", r"^metrics$"]
# They look for Django's own classes by name; chatapp.E005 looks for ours.
SILENCED_SYSTEM_CHECKS = ["security.W001", "security.W002", "security.W003"]
X_FRAME_OPTIONS = "DENY"
CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": [NONE],
        "script-src": [SELF],
        "style-src": [SELF],
        "img-src": [SELF, "data:"],  # what is about to be sent is shown; it asks nobody
        "connect-src": [SELF],
        "form-action": [SELF],
        "frame-ancestors": [NONE],
        "base-uri": [NONE],
        "require-trusted-types-for": ["'script'"],
        "trusted-types": [NONE],
    }
}
ADMIN_CONTENT_SECURITY_POLICY = {
    # The scripts of stock admin write innerHTML; all else of the policy suits it.
    name: values
    for name, values in CONTENT_SECURITY_POLICY["DIRECTIVES"].items()
    if "trusted-types" not in name
}
LOGGING = logs.logging_of(OBSERVING.log_format)
# A text of max_input_bytes may take six bytes per byte once JSON has escaped it.
DATA_UPLOAD_MAX_MEMORY_SIZE = RELAY.max_input_bytes * 6 + 65536

# -- static files ----------------------------------------------------------------------------------
STATIC_URL = "/static/"
STATIC_ROOT = BASE_DIR / "staticfiles"
STATICFILES_DIRS = [BASE_DIR / "static"]
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {
        "BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"
        if DEBUG
        else "chatapp.apps.ModuleManifestStorage"
    },
}
