"""What is vendored is what its list says; deploy/vendor/build.mjs makes both."""

from __future__ import annotations

import json
import re
from hashlib import sha256
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
VENDOR = ROOT / "static" / "vendor"
LISTED = json.loads((VENDOR / "vendor.json").read_text(encoding="utf-8"))


def test_every_file_is_byte_for_byte_the_listed_one() -> None:
    found = {
        path.name: sha256(path.read_bytes()).hexdigest()
        for path in VENDOR.iterdir()
        if path.name != "vendor.json"
    }
    assert found == LISTED["sha256"]


def test_every_version_is_that_of_the_lock() -> None:
    lock = json.loads((ROOT / "deploy/vendor/package-lock.json").read_text(encoding="utf-8"))
    locked = {
        name.removeprefix("node_modules/"): entry["version"]
        for name, entry in lock["packages"].items()
        if name
    }
    assert {name: locked[name] for name in LISTED["versions"]} == LISTED["versions"]
    assert all("integrity" in entry for name, entry in lock["packages"].items() if name)


def test_every_package_comes_with_its_licence() -> None:
    licences = (VENDOR / "THIRD_PARTY_LICENSES.txt").read_text(encoding="utf-8")
    named = re.findall(r"^(\S+) (\d\S*) \([\w. -]+\)\n-{60}$", licences, re.M)
    assert dict(named) == LISTED["versions"]
    assert "ships no licence text" not in licences


def test_what_is_vendored_asks_nobody_and_needs_no_eval() -> None:
    for path in VENDOR.glob("*.js"):
        text = path.read_text(encoding="utf-8")
        assert not re.search(
            r"(?<!\.)\beval\(|new Function|XMLHttpRequest|\.fetch\(\"|WebSocket|importScripts", text
        ), path.name


def test_formulas_come_in_parts_of_which_none_holds_up_a_phone() -> None:
    """DECISIONS 76: the whole of KaTeX, evaluated at once, is a long task there."""
    sizes = {path.name: path.stat().st_size for path in VENDOR.glob("maths*.js")}
    assert len(sizes) >= 6
    assert max(sizes.values()) < 110_000, sizes
    assert sum(sizes.values()) < 270_000, sizes
