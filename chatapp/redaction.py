"""The redaction hook: what is stored of people's and models' words goes through it first.

`REDACT` names a callable, text to text. What a person writes is redacted before it is stored, so a
model does not see it either; an answer is when it is recorded. A hook that fails keeps text out
rather than in: a question is refused, an answer is recorded without its words, and says so.

What it does not reach: the live stream, which was shown while it was written, and its log in Redis,
kept for `RELAY_RETENTION_S`; pictures; tools' definitions; what is already stored.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from functools import cache
from typing import Any, Final

import msgspec
from django.conf import settings
from django.utils.module_loading import import_string

from relay import Snapshot, text_sha256

logger = logging.getLogger(__name__)

Redact = Callable[[str], object]

WITHHELD: Final = (
    "[This answer was complete, but its text was not kept: the check that texts go through before "
    "they are stored failed.]"
)
_LEFT: Final = frozenset(
    {"role", "type", "id", "call_id", "name", "signature", "data", "media_type"}
)
"""Names of what is no text of anybody's."""
_EMAIL: Final = re.compile(r"[\w.%+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,8}")
_CARD: Final = re.compile(r"(?<![\d.])\d(?:[ -]?\d){12,18}(?![\d.]*\d)")


class RedactionFailed(Exception):
    """The hook raised, or did not answer with a text. Its own words may be the text: they are not
    repeated here."""


def mask(text: str) -> str:
    """An example of a hook: covers e-mail addresses, and card numbers by their check digit (Luhn).

    What else is personal (names, addresses, telephone numbers) it does not know.
    """
    text = _EMAIL.sub("[e-mail]", text)
    return _CARD.sub(lambda found: "[card number]" if _luhn(found[0]) else found[0], text)


def _luhn(number: str) -> bool:
    """ISO/IEC 7812-1, annex B."""
    digits = [int(c) for c in number if c.isdigit()]
    doubled = [sum(divmod(2 * digit, 10)) for digit in digits[-2::-2]]
    return sum(digits[-1::-2] + doubled) % 10 == 0


def active() -> bool:
    return bool(settings.REDACT)


@cache
def _named(path: str) -> Redact:
    hook: Redact = import_string(path)
    return hook


def redact(text: str) -> str:
    """As the hook has it; the same where there is none. Raises RedactionFailed."""
    if not settings.REDACT or not text:
        return text
    try:
        redacted = _named(settings.REDACT)(text)
    except Exception as exc:  # noqa: BLE001 - a stranger's code; whatever it raises, text stays out
        logger.error("REDACT failed: %s", type(exc).__name__)
        raise RedactionFailed from None
    if not isinstance(redacted, str):
        logger.error("REDACT answered with %s instead of a text", type(redacted).__name__)
        raise RedactionFailed
    return redacted


def redact_all(value: Any) -> Any:
    """Every text in a value of JSON, but for what is no text of anybody's."""
    match value:
        case str():
            return value if value.startswith("data:") else redact(value)
        case dict():
            return {k: v if k in _LEFT else redact_all(v) for k, v in value.items()}
        case list() | tuple():
            return [redact_all(one) for one in value]
        case _:
            return value


def redacted(snapshot: Snapshot) -> Snapshot:
    """What is recorded of an ended answer. Never raises: see WITHHELD."""
    if not active():
        return snapshot
    try:
        return _redacted(snapshot)
    except RedactionFailed:
        logger.error("the text of %s is withheld", snapshot.id)
        return msgspec.structs.replace(
            snapshot,
            text=WITHHELD,
            reasoning="",
            refusal="",
            tool_calls=(),
            meta=(),
            text_sha256=text_sha256(WITHHELD),
        )


def difference(before: Snapshot, after: Snapshot) -> dict[str, Any]:
    """For the trail: a code, and how many of each part are not what they were. Empty: none."""
    counts = {
        "text": int(before.text != after.text),
        "reasoning": int(before.reasoning != after.reasoning),
        "refusal": int(before.refusal != after.refusal),
        "tool_calls": sum(call not in after.tool_calls for call in before.tool_calls),
        "meta": sum(one not in after.meta for one in before.meta),
    }
    changed = {name: count for name, count in counts.items() if count}
    if not changed:
        return {}
    return {"code": "withheld" if after.text == WITHHELD else "changed", **changed}


def _redacted(snapshot: Snapshot) -> Snapshot:
    text, reasoning = redact(snapshot.text), redact(snapshot.reasoning)
    calls = tuple(
        msgspec.structs.replace(
            call,
            raw=redact(call.raw),
            arguments=redact_all(call.arguments),
            error=redact(call.error) if call.error else call.error,
        )
        for call in snapshot.tool_calls
    )
    # A signature is one of what was signed: a provider refuses the one without the other.
    signed = snapshot.meta if reasoning == snapshot.reasoning else ()
    return msgspec.structs.replace(
        snapshot,
        text=text,
        reasoning=reasoning,
        refusal=redact(snapshot.refusal),
        tool_calls=calls,
        meta=tuple(
            msgspec.structs.replace(one, data=redact_all(one.data))
            if one.kind == "citation"
            else one
            for one in signed
        ),
        text_sha256=text_sha256(text),
    )
