"""Logs: one line each on stderr; what an operator acts on, never content.

Whoever works on a request or an answer has its id in context (structlog's contextvars), and every
line that is logged meanwhile carries it, ours and Django's. Lines for people, or JSON for machines.
"""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Any, Final, Literal

import structlog

if TYPE_CHECKING:
    from structlog.typing import EventDict, WrappedLogger

Shape = Literal["lines", "json"]
IDS: Final = ("request_id", "response_id")


def logging_of(shape: Shape) -> dict[str, Any]:
    """Django's LOGGING."""
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"line": {"()": "chatapp.logs.Formatter", "shape": shape}},
        "filters": {
            "id": {"()": "chatapp.middleware.problems.WithErrorId"},
            "line": {"()": "chatapp.middleware.problems.RefusalsInOneLine"},
        },
        "handlers": {
            "stderr": {
                "class": "logging.StreamHandler",
                "formatter": "line",
                "filters": ["id", "line"],
            }
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


class Formatter(structlog.stdlib.ProcessorFormatter):
    """Of both shapes. The ids in context are fields of every line."""

    def __init__(self, shape: Shape = "lines") -> None:
        super().__init__(
            foreign_pre_chain=[structlog.contextvars.merge_contextvars],
            processors=[_described, structlog.processors.format_exc_info, _RENDERERS[shape]],
        )


def _described(logger: WrappedLogger, name: str, event: EventDict) -> EventDict:
    record: logging.LogRecord = event.pop("_record")
    event.pop("_from_structlog", None)
    found: EventDict = {
        "at": logging.Formatter().formatTime(record),
        "level": record.levelname,
        "logger": record.name,
        "event": event.pop("event"),
    }
    if error := getattr(record, "error", ""):
        found["error_id"] = error
    found.update(event)
    return found


def _json(logger: WrappedLogger, name: str, event: EventDict) -> str:
    return json.dumps(event, ensure_ascii=False, default=repr)


def _line(logger: WrappedLogger, name: str, event: EventDict) -> str:
    error = event.get("error_id", "")
    line = f"{event['at']} {event['level']} {event['logger']}: {event['event']}"
    line += f" (error {error})" if error else ""
    # An error's id is its request's; once is enough.
    ids = [f"{id}={event[id]}" for id in IDS if id in event and event[id] != error]
    line += f" [{' '.join(ids)}]" if ids else ""
    return "\n".join([line, event["exception"]]) if "exception" in event else line


_RENDERERS: Final = {"lines": _line, "json": _json}
