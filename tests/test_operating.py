"""What deploy/*.md names is there: who is called at night types it as it stands."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from django.apps import apps
from django.core.management import get_commands, load_command_class
from django.urls import Resolver404, resolve

from chatapp.admin_site import PAGES
from chatapp.metrics import SERIES
from chatapp.settings import SETTINGS_DOC
from relay.metrics import ENDS, REFUSALS

ROOT: Final = Path(__file__).resolve().parent.parent
DEPLOY: Final = ROOT / "deploy"
DOCUMENTS: Final = {path.name: path.read_text() for path in sorted(DEPLOY.glob("*.md"))}
ALL: Final = "\n".join(DOCUMENTS.values())
STREAMS: Final = {"/diag/stream", "/diag/report"}
"""Of the raw ASGI application: chatapp/asgi.py."""
OF_SCRIPTS: Final = {"HOST", "PORT", "PREPARE", "POSTGRES_PASSWORD", "GRAFANA_PASSWORD"}
OF_OTHERS: Final = {
    *("FLUSHALL", "INFO", "PUBLISH", "SPUBLISH", "SIGTERM", "TLS", "WARNING", "ERROR"),
    *("NAME", "FILE", "HEX", "PID", "URL", "GET", "CONTRACTS"),
}
"""Commands of Redis, signals, levels, what stands for something else, a mark of migrations."""


def quoted(text: str) -> list[str]:
    """What is typed or shown: between backticks, and lines that are indented as commands."""
    typed = [line.partition("  #")[0] for line in re.findall(r"(?m)^ {4}(\S.*)$", text)]
    return [*re.findall(r"`([^`\n]+)`", text), *typed]


@pytest.fixture(params=DOCUMENTS)
def text(request: pytest.FixtureRequest) -> str:
    return DOCUMENTS[request.param]


def test_commands_are_there_with_their_options(text: str) -> None:
    named = [
        found.groups()
        for part in quoted(text)
        for found in re.finditer(r"manage\.py (\w+)([^|&]*)", part)
    ]
    assert named
    for name, rest in named:
        assert name in get_commands(), name
        command: Any = load_command_class(get_commands()[name], name)
        parser = command.create_parser("manage.py", name)
        known = {option for action in parser._actions for option in action.option_strings}
        assert set(re.findall(r"--[a-z-]+", rest)) <= known, name


def test_settings_are_settings(text: str) -> None:
    names = {
        name
        for part in quoted(text)
        for name in re.findall(r"(?<![\w$./-])[A-Z][A-Z_]{2,}\b(?!\.)", part)
    }
    known = {setting.name for setting in SETTINGS_DOC} | OF_SCRIPTS | OF_OTHERS
    assert {name for name in names if not name.endswith("_")} <= known


def test_series_are_shown(text: str) -> None:
    shown = {series.name + end for series in SERIES for end in ("", "_total", "_bucket", "_sum")}
    assert set(re.findall(r"\bunbroken_[a-z_]+", text)) <= shown


def test_addresses_are_served(text: str) -> None:
    for address in set(re.findall(r"`(?:GET )?(/[a-z/]+)`", text)) - STREAMS:
        if Path(address).parts[1] in {"srv", "etc", "path", "backups"}:
            continue
        try:
            resolve(address)
        except Resolver404:
            resolve(f"{address}/")


def test_ends_and_refusals_are_those_of_the_code() -> None:
    statuses = {status for status, _ in ENDS}
    named = set(re.findall(r"`([a-z]+)/([a-z_]+)`", ALL))
    assert named
    assert {pair for pair in named if pair[0] in statuses} <= set(ENDS)
    assert "database_away" in REFUSALS
    assert set(re.findall(r"`([a-z_]+)` of `unbroken_refusals_total`", ALL)) <= set(REFUSALS)


def test_pages_of_the_admin_are_there(text: str) -> None:
    models = apps.get_app_config("chatapp").get_models()
    pages = {page.title for page in PAGES}
    pages |= {str(model._meta.verbose_name_plural).capitalize() for model in models}
    named = set(re.findall(r"Django admin,? \(?“([^”]+)”", text))
    assert named <= pages, named - pages


def test_what_logs_are_said_to_say_is_in_the_code() -> None:
    """And what else stands between these marks: names of pages, sentences of pages."""
    marks = {word for word in re.findall(r"“([^”]+)”", DOCUMENTS["RUNBOOK.md"]) if " " in word}
    sources = "".join(
        path.read_text() for name in ("chatapp", "relay") for path in (ROOT / name).rglob("*.py")
    )
    for word in marks - {page.title for page in PAGES}:
        # runtime.py says it of each of its loops.
        general = re.sub("^sweep ", "%s ", word)
        models = [str(model._meta.verbose_name_plural) for model in apps.get_models()]
        assert word in sources or general in sources or word.lower() in models, word


def test_files_and_units_are_there() -> None:
    files = set(re.findall(r"(?<![\w/.])((?:deploy|tests|chatapp|relay)/[\w./-]+\w)", ALL))
    files -= {name for name in files if name.startswith("deploy/unbroken-")}  # of kubectl
    assert len(files) > 10
    assert {name for name in files if not (ROOT / name).exists()} == set()
    units = {re.sub(r"@.*", "@", unit) for unit in re.findall(r"unbroken-[a-z]+@?\d?", ALL)}
    there = {path.stem for path in (DEPLOY / "systemd").glob("*.service")}
    assert units <= there, units - there


def test_containers_and_pods_have_the_names_that_are_typed() -> None:
    services = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"].keys()
    asked = re.findall(r"compose\.yaml (?:exec (\w+)|logs --since 1h ([a-z ]+))", ALL)
    assert asked
    assert {name for one in asked for part in one for name in part.split()} <= services
    pods = "\n".join(path.read_text() for path in (DEPLOY / "kubernetes").glob("*.yaml"))
    for found in re.findall(
        r"kubectl -n (\w+) (?:exec -it deploy/([\w-]+)|logs -l app=(\w+))", ALL
    ):
        namespace, deployment, label = found
        assert f"namespace: {namespace}" in pods
        assert not deployment or f"name: {deployment}" in pods
        assert not label or f"app: {label}" in pods


def test_what_is_made_is_in_the_makefile(text: str) -> None:
    makefile = (ROOT / "Makefile").read_text()
    for target in re.findall(r"`make ([\w-]+)", text):
        assert re.search(rf"(?m)^{target}:", makefile), target
