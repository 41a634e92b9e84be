"""Logs: one line each on stderr; what an operator acts on, never content."""

from __future__ import annotations

from typing import Any, Final

LOGGING: Final[dict[str, Any]] = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"line": {"format": "%(asctime)s %(levelname)s %(name)s: %(message)s%(error)s"}},
    "filters": {
        "id": {"()": "chatapp.middleware.problems.WithErrorId"},
        "line": {"()": "chatapp.middleware.problems.RefusalsInOneLine"},
    },
    "handlers": {
        "stderr": {"class": "logging.StreamHandler", "formatter": "line", "filters": ["id", "line"]}
    },
    "root": {"handlers": ["stderr"], "level": "WARNING"},
    "loggers": {
        "chatapp": {"level": "INFO"},
        "relay": {"level": "INFO"},
        # Instead of Django's own handlers, which know DEBUG and mail only.
        "django": {"level": "INFO", "handlers": []},
        "django.request": {"level": "ERROR"},
    },
}
