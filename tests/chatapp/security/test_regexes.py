"""No regular expression of the project takes long for any text (ReDoS)."""

from __future__ import annotations

import ast
import importlib
import itertools
import pkgutil
import re
import time
from pathlib import Path
from typing import Any, Final

import pytest

import chatapp
import relay

ROOT: Final = Path(__file__).resolve().parents[3]
LENGTH: Final = 50_000
"""As much text as an error page or a pasted file has. What grows with the square takes seconds."""
ENOUGH_S: Final = 1.0
"""Of CPU. The slowest takes a fiftieth of it."""
PUMPS: Final = (
    *("a", "A", "0", "9", "-", "_", ".", " ", "\t", "\n", "\r", "\r\n", '"', "\\", "\\u", "\\ud8"),
    *("e", "E", "1e", "0.", "-1", "1.", "[", "{", "{}", "<", ">", ":", "=", ",", ";", "/", "+"),
    *("eyJ", "eyJ-", "eyJa.", "eyJ-a.", "eyJ-.", "sk-", "sk", "key-", "bearer ", "basic\t"),
    *("token=", "token:", "token", "api_key", "api key = ", 'secret" ', "x-api-key", "password \n"),
    *("context", "context-", "context size", "prompt is too ", "1d", "1h2m", "1s", "1.5ms", "..s"),
    *("HTTP/1", "HTTP/1.1 200\n", "a: b\n", "content-type:", "content-type: \t", "resp_0_"),
    *("\u2028", "\udc00", "\u00e9", "\0", "a\n\n\n", "\n\n\nx"),
)
TAILS: Final = ("", "!", "\n")
ANCHORED: Final = {
    "relay/upstream/retry_after.py": "fullmatch",
    "relay/replay/__main__.py:35": "match",
    "relay/wire/partial_json.py": "match",
}
"""Patterns that are never searched for, and how they are used."""


def patterns() -> dict[str, re.Pattern[str] | re.Pattern[bytes]]:
    """Every pattern that a source file writes down, by file and line."""
    found: dict[str, re.Pattern[str] | re.Pattern[bytes]] = {}
    for package in ("relay", "chatapp"):
        for path in (ROOT / package).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                if not (isinstance(node, ast.Call) and _is_re(node.func)):
                    continue
                name = f"{path.relative_to(ROOT)}:{node.lineno}"
                try:
                    literal = ast.literal_eval(node.args[0])
                except ValueError:
                    assert name.split(":")[0] in MADE, f"{name}: not a literal; add it to MADE"
                    continue
                found[name] = re.compile(literal)
    return found


def _is_re(function: ast.expr) -> bool:
    return (
        isinstance(function, ast.Attribute)
        and isinstance(function.value, ast.Name)
        and function.value.id == "re"
    )


MADE: Final = {"relay/wire/stops.py", "chatapp/services/finding.py"}
"""Sources that make a pattern at run time: one class of characters, which cannot go back, or a few
words as they are, of which no place is tried more than once each."""


def test_every_pattern_of_a_module_is_among_them() -> None:
    written = {pattern.pattern for pattern in patterns().values()}
    kept = set()
    for package in (relay, chatapp):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not any(part in module.name for part in ("asgi", "__main__", "management.prepare")):
                values = vars(importlib.import_module(module.name)).values()
                kept |= {value.pattern for value in values if isinstance(value, re.Pattern)}
    assert kept <= written
    assert len(written) > 20


@pytest.mark.parametrize(("where", "pattern"), patterns().items(), ids=list(patterns()))
def test_no_text_takes_long(where: str, pattern: Any) -> None:
    worst, worst_text = 0.0, ""
    for pump, tail in itertools.product(PUMPS, TAILS):
        text = pump * (LENGTH // len(pump)) + tail
        subject = (
            text if isinstance(pattern.pattern, str) else text.encode("utf-8", "surrogatepass")
        )
        uses: tuple[Any, ...] = (
            pattern.search,
            pattern.fullmatch,
            lambda text: [*pattern.finditer(text)],
        )
        for place, only in ANCHORED.items():
            if where.startswith(place):
                uses = (getattr(pattern, only),)
        started_s = time.process_time()
        for use in uses:
            use(subject)
        took_s = time.process_time() - started_s
        if took_s > worst:
            worst, worst_text = took_s, repr(pump) + repr(tail)
        assert took_s < ENOUGH_S, (
            f"{where} takes {took_s:.1f} s for {pump!r} again and again, {tail!r}"
        )
    print(f"{where}: {worst * 1000:.0f} ms at worst, for {worst_text}")
