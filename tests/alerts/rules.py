"""The rules that ship, and the same with shorter times, for tests that wait for real alerts."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any, Final

import pytest

ROOT: Final = Path(__file__).resolve().parents[2]
PATH: Final = ROOT / "deploy" / "alerts.yml"
FACTOR: Final = 60
"""A minute of the rules is a second of the test: every window and every `for`, and nothing else."""

_MINUTES: Final = re.compile(r"(\[|\bfor: )(\d+)m\b")


def shortened(rules: str) -> str:
    """Minutes become seconds; the expressions and their limits stay."""
    assert 60 // FACTOR == 1
    return _MINUTES.sub(lambda found: f"{found[1]}{found[2]}s", rules)


def alerts() -> dict[str, dict[str, Any]]:
    """Name → {expr, for, runbook_url}. Read without YAML, which nothing else here needs."""
    found: dict[str, dict[str, Any]] = {}
    for part in PATH.read_text().split("- alert: ")[1:]:
        name, _, rest = part.partition("\n")
        expr = re.search(r"expr: (?:\|\n)?(.*?)\n        (?:for|labels):", rest, re.DOTALL)
        url = re.search(r"runbook_url: (\S+)", rest)
        assert expr is not None, name
        assert url is not None, name
        found[name] = {"expr": expr[1], "runbook_url": url[1], "summary": "summary: " in rest}
    return found


def tool(name: str) -> str:
    """`prometheus` or `promtool`, of Debian's package `prometheus`; CI takes no skip."""
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed: apt-get install prometheus")
    return found
