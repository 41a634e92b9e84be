"""The house rules that no linter knows."""

from __future__ import annotations

import ast
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
MAX_LINES = 400
VAGUE = {"utils", "common", "core", "base", "helpers"}
TOP_LEVEL = {
    *("manage.py", "pyproject.toml", "requirements.txt", "requirements-model.txt", "Makefile"),
    *("README.md", "CHANGELOG.md", "DECISIONS.md", "LICENSE"),
    *("chatapp", "relay", "templates", "static", "tests", "deploy"),
}


def tracked() -> list[Path]:
    """Every file git would carry: known to it, or new and not ignored."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    listing = subprocess.run(command, cwd=ROOT, capture_output=True, check=True, text=True).stdout
    paths = [Path(name) for name in listing.split("\0") if name]
    return [path for path in paths if (ROOT / path).is_file()]


def ours() -> list[Path]:
    """Source files that we write by hand and that ship."""
    return [
        path
        for path in tracked()
        if path.parts[0] in {"relay", "chatapp", "static"}
        and path.suffix in {".py", ".js", ".css", ".lua"}
        and not {"vendor", "migrations"} & set(path.parts)
    ]


def test_there_are_sources_to_check() -> None:
    folders = {path.parts[0] for path in ours()}
    assert folders == {"relay", "chatapp", "static"}


def our_tests() -> list[Path]:
    """All but the bench, whose parts are scripts that are read from top to bottom."""
    return [
        path
        for path in tracked()
        if path.parts[0] == "tests"
        and path.suffix in {".py", ".js"}
        and not {"bench", "fixtures"} & set(path.parts)
    ]


def test_no_file_is_longer_than_400_lines() -> None:
    files = [*ours(), *our_tests()]
    lengths = {path: len((ROOT / path).read_text().splitlines()) for path in files}
    assert {str(path): n for path, n in lengths.items() if n > MAX_LINES} == {}


def test_no_module_is_named_for_being_everything() -> None:
    vague = [path for path in ours() if VAGUE & {part.split(".")[0] for part in path.parts}]
    assert vague == []


def test_the_top_level_is_exactly_what_the_design_lists() -> None:
    found = {path.parts[0] for path in tracked() if not path.parts[0].startswith(".")}
    assert found == TOP_LEVEL


@pytest.mark.parametrize(
    "path", [p for p in ours() if p.parts[0] == "relay" and p.suffix == ".py"], ids=str
)
def test_relay_knows_nothing_of_django(path: Path) -> None:
    foreign = {"django", "channels", "daphne", "chatapp", "asgiref"}
    assert not foreign & imported(ROOT / path)


def imported(path: Path) -> set[str]:
    """Top-level names of every package that a module imports, wherever in it."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module)
    return {name.split(".")[0] for name in names}
