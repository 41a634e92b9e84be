"""Alerts, dashboard and runbook: the rules bite at their limits, and all three speak of series that
are shown."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from chatapp.metrics import SERIES
from tests.alerts.rules import PATH, ROOT, alerts, shortened, tool

RUNBOOK = (ROOT / "deploy" / "RUNBOOK.md").read_text()
DASHBOARD = ROOT / "deploy" / "grafana" / "unbroken.json"
SUFFIXES = {
    "counter": ("_total",),
    "gauge": ("",),
    "histogram": ("_bucket", "_sum", "_count"),
}
SHOWN = {series.name + suffix for series in SERIES for suffix in SUFFIXES[series.kind]}


def series_in(text: str) -> set[str]:
    return set(re.findall(r"\bunbroken_[a-z_]+", text))


def promtool(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [tool("promtool"), *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    shutil.copy(PATH, tmp_path / "alerts.yml")
    shutil.copy(Path(__file__).with_name("alerts.test.yml"), tmp_path)
    return tmp_path


def test_the_rules_are_ones(folder: Path) -> None:
    done = promtool(folder, "check", "rules", "--lint-fatal", "alerts.yml")
    assert done.returncode == 0, done.stdout + done.stderr
    (folder / "short.yml").write_text(shortened(PATH.read_text()))
    assert promtool(folder, "check", "rules", "short.yml").returncode == 0


def test_each_rule_bites_at_its_limit_and_not_before(folder: Path) -> None:
    done = promtool(folder, "test", "rules", "alerts.test.yml")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("> 5\n", "> 7.6\n"),
        ("> 5\n", "> 4\n"),
        ("max(unbroken_overdue_responses) > 0", "max(unbroken_overdue_responses) > 1"),
        ("> 0.3\n", "> 0.32\n"),
        ("> 0.3\n", "> 0.29\n"),
        ("> 3\n", "> 4.1\n"),
        ("sum(increase(unbroken_leases_lapsed_total[10m]))", "sum(unbroken_leases_lapsed_total)"),
        ("max by (shard) (unbroken_workers) == 0", "min by (shard) (unbroken_workers) == 0"),
        ("(unbroken_jobs_waiting) > 10", "(unbroken_jobs_waiting) > 9"),
        ("max(unbroken_store_up) == 0", "min(unbroken_store_up) == 0"),
        ("(unbroken_store_memory_ratio) > 0.8", "(unbroken_store_memory_ratio) > 0.79"),
        ("> 0.2 * sum", "> 0.19 * sum"),
        ("invalid_request|", ""),
        ("[5m])) >= 3\n          and", "[5m])) >= 1\n          and"),
        ("> 0.2\n", "> 0.19\n"),
        ("(unbroken_viewers_lagging) >= 5", "(unbroken_viewers_lagging) >= 4"),
        ("> 0.05\n", "> 0.049\n"),
        ("finalize_failures_total[5m])) >= 3", "finalize_failures_total[5m])) >= 2"),
        ('"store_full"}[5m])) >= 3', '"store_full"}[5m])) >= 2'),
        ('"store_full"}[5m])) >= 3', '"full"}[5m])) >= 3'),
        ('"database_away"}[5m])) >= 3', '"database_away"}[5m])) >= 2'),
        ('"database_away"}[5m])) >= 3', '"away"}[5m])) >= 3'),
        ("age_seconds) > 300", "age_seconds) > 301"),
    ],
)
def test_a_limit_that_is_moved_is_noticed(folder: Path, right: str, wrong: str) -> None:
    rules = folder / "alerts.yml"
    text = rules.read_text()
    assert right in text
    rules.write_text(text.replace(right, wrong))
    assert promtool(folder, "test", "rules", "alerts.test.yml").returncode != 0


def test_rules_name_only_what_is_shown() -> None:
    for name, rule in alerts().items():
        named = series_in(rule["expr"])
        assert named, name
        assert named <= SHOWN, (name, named - SHOWN)
        assert rule["summary"], name


def test_each_alert_has_its_section_and_points_to_it() -> None:
    sections = re.findall(r"^### (\w+)$", RUNBOOK, re.MULTILINE)
    assert sections == list(alerts())
    for name, rule in alerts().items():
        assert rule["runbook_url"] == f"RUNBOOK.md#{name.lower()}"
        section = RUNBOOK.split(f"### {name}\n")[1].split("\n#")[0]
        assert "Look " in section, name
        assert len(section) > 200, name


def queries(node: Any) -> list[str]:
    if isinstance(node, dict):
        mine = [node["expr"]] if isinstance(node.get("expr"), str) else []
        return mine + [query for value in node.values() for query in queries(value)]
    return [query for value in node for query in queries(value)] if isinstance(node, list) else []


def test_the_dashboard_asks_for_series_that_are_shown(folder: Path) -> None:
    board = json.loads(DASHBOARD.read_text())
    asked = queries(board)
    assert len(asked) >= 20
    for query in asked:
        assert series_in(query) <= SHOWN, query
    # promtool takes each of them for a rule, and so reads it as PromQL.
    expressions = [json.dumps(query.replace("$__rate_interval", "5m")) for query in asked]
    rules = "".join(
        f"      - record: test:query{n}\n        expr: {expression}\n"
        for n, expression in enumerate(expressions)
    )
    (folder / "board.yml").write_text(f"groups:\n  - name: board\n    rules:\n{rules}")
    done = promtool(folder, "check", "rules", "board.yml")
    assert done.returncode == 0, done.stdout + done.stderr
    ids = [panel["id"] for panel in board["panels"]]
    assert len(ids) == len(set(ids))
    assert all(panel["title"] for panel in board["panels"])
