"""What the documents say exists, and what exists is in the documents."""

from __future__ import annotations

import re
from pathlib import Path

from chatapp.api import api
from chatapp.settings import SETTINGS_DOC
from tests.test_house import tracked

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text()
PROTOCOL = (ROOT / "relay" / "PROTOCOL.md").read_text()


def test_the_settings_table_is_the_code() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (.*?) \| (.*?) \|$", README, re.MULTILINE)
    assert rows == [(s.name, s.default, s.meaning) for s in SETTINGS_DOC]


def test_the_table_of_routes_is_the_code() -> None:
    table = (ROOT / "chatapp" / "api" / "API.md").read_text()
    rows = re.findall(r"^\| ([A-Z]+) \| `(.*?)` \| (.*?) \|$", table, re.MULTILINE)
    assert rows == [
        (method.upper(), path.removeprefix("/api"), route["description"].splitlines()[0])
        for path, methods in api.get_openapi_schema()["paths"].items()
        for method, route in methods.items()
    ]


def test_every_link_between_documents_leads_somewhere() -> None:
    documents = [
        path
        for path in tracked()
        if path.suffix == ".md" and not {"vendor", "fixtures"} & set(path.parts)
    ]
    assert Path("deploy/OPERATIONS.md") in documents
    dead = [
        f"{document}: {target}"
        for document in documents
        for target in re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", (ROOT / document).read_text())
        if not (ROOT / document.parent / target).exists()
    ]
    assert not dead


def test_the_two_commands_are_in_the_makefile() -> None:
    makefile = (ROOT / "Makefile").read_text()
    for target in re.findall(r"`?make (\w+)", README):
        assert re.search(rf"^{target}\s*:", makefile, re.MULTILINE), target


def test_every_cited_section_of_the_protocol_exists() -> None:
    sections = {int(n) for n in re.findall(r"^## (\d+)\. ", PROTOCOL, re.MULTILINE)}
    cited: dict[str, set[int]] = {}
    for folder in ("relay", "chatapp", "tests"):
        for path in (ROOT / folder).rglob("*"):
            if path.suffix not in {".py", ".lua", ".js"} or path == Path(__file__):
                continue
            for group in re.findall(
                r"PROTOCOL (\d+(?:\.\d+)?(?:(?:,| and| to) \d+)*)", path.read_text()
            ):
                numbers = {int(float(n)) for n in re.findall(r"\d+(?:\.\d+)?", group)}
                cited[str(path.relative_to(ROOT))] = numbers | cited.get(
                    str(path.relative_to(ROOT)), set()
                )
    unknown = {path: numbers - sections for path, numbers in cited.items() if numbers - sections}
    assert not unknown
    tested = set().union(*(n for path, n in cited.items() if path.startswith("tests")))
    assert set(range(1, 10)) <= tested, "a section that no test cites"


def test_the_example_environment_has_every_setting_and_no_other() -> None:
    """deploy/env.example: what a site has to say is set, all else is there with its default."""
    lines = (ROOT / "deploy" / "env.example").read_text().splitlines()
    found = {
        match[2]: (match[1], match[3], lines[index - 1])
        for index, line in enumerate(lines)
        if (match := re.fullmatch(r"(# )?([A-Z][A-Z0-9_]+)=(.*)", line))
    }
    meanings = {setting.name: setting for setting in SETTINGS_DOC}
    models = (ROOT / "deploy" / "models.example.toml").read_text()
    elsewhere = set(re.findall(r'^(?:# ?)?api_key_env = "(\w+)"', models, re.MULTILINE))
    elsewhere |= {"HOST", "PORT", "PREPARE"}  # deploy/uvicorn.sh
    elsewhere |= {"POSTGRES_PASSWORD", "GRAFANA_PASSWORD"}  # deploy/compose.yaml
    assert meanings.keys() - found.keys() == set(), "deploy/env.example lacks these"
    assert found.keys() - meanings.keys() == elsewhere, "nobody reads these"
    for name, setting in meanings.items():
        hidden, value, above = found[name]
        assert above == f"# {setting.meaning}", name
        if hidden:
            default = setting.default.partition(";")[0]
            assert value == ("" if default.startswith("none") else default), name
