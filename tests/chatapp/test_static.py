"""What is collected for production: hashed names, and modules that find each other by them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command

ROOT = Path(__file__).resolve().parent.parent.parent
IMPORT = re.compile(r"""^import [^'"]* from ['"](\.[^'"]+)['"]""", re.M)


@pytest.fixture
def collected(tmp_path: Path, settings: Any) -> Path:
    settings.STATIC_ROOT = str(tmp_path)
    storage = {"BACKEND": "chatapp.apps.ModuleManifestStorage"}
    settings.STORAGES = settings.STORAGES | {"staticfiles": storage}
    call_command("collectstatic", "--noinput", verbosity=0)
    return tmp_path


def test_every_import_of_a_collected_module_is_a_hashed_file_that_is_there(collected: Path) -> None:
    names: dict[str, str] = json.loads((collected / "staticfiles.json").read_text())["paths"]
    ours = [name for name in names if name.startswith("chat/") and name.endswith(".js")]
    assert len(ours) > 10
    modules = [collected / names[name] for name in ours]
    imports = [
        (module, found) for module in modules for found in IMPORT.findall(module.read_text())
    ]
    assert len(imports) > 20
    for module, found in imports:
        assert (module.parent / found).is_file(), f"{module.name} imports {found}"
        assert re.search(r"\.[0-9a-f]{12}\.js$", found), f"{module.name}: {found} has no hash"


def test_no_module_of_ours_builds_html_or_code_from_text() -> None:
    """Trusted Types would refuse it at run time; here it is refused at once."""
    sink = re.compile(
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function"
    )
    for path in (ROOT / "static" / "chat").rglob("*.js"):
        assert not sink.search(path.read_text()), path.name


def test_no_style_sheet_reaches_out_of_the_site() -> None:
    for path in (ROOT / "static" / "chat").rglob("*.css"):
        assert not re.search(r"@import|url\(|https?:", path.read_text()), path.name
