"""The environment is read in one place, and every variable is documented there."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from chatapp import settings as module
from relay import RelayConfig

ROOT = Path(__file__).resolve().parents[2]
SHOW = """
import json, sys
from chatapp import settings
print(json.dumps({name: getattr(settings, name) for name in sys.argv[1:]}, default=repr))
"""


def load(*names: str, **environment: str) -> dict[str, Any]:
    """These settings, as a new process with this environment sees them."""
    import json

    done = subprocess.run(
        [sys.executable, "-c", SHOW, *names],
        cwd=ROOT,
        env={"PATH": os.environ.get("PATH", ""), **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    values: dict[str, Any] = json.loads(done.stdout)
    return values


def test_an_empty_environment_will_do(tmp_path: Path) -> None:
    values = load("DEBUG", "RELAY", "REDIS_URL", "RELAY_EMBEDDED", "SESSION_COOKIE_SECURE")
    assert values["DEBUG"] is False
    assert values["SESSION_COOKIE_SECURE"] is True
    assert values["RELAY"] == repr(RelayConfig())
    assert values["REDIS_URL"].startswith("redis://127.0.0.1")
    assert values["RELAY_EMBEDDED"] is False


def test_the_environment_is_heard() -> None:
    names = ("DEBUG", "ALLOWED_HOSTS", "RELAY", "RELAY_MODELS", "CSRF_COOKIE_SECURE", "DATABASES")
    values = load(
        *names,
        DEBUG="1",
        ALLOWED_HOSTS="a.example,b.example",
        RELAY_LEASE_S="7.5",
        RELAY_MAX_VIEWERS_PER_RESPONSE="3",
        RELAY_CAPTURE_DIR="/var/captures",
        RELAY_MODELS="/models.toml",
        DATABASE_URL="postgres://u:p@db.example:5433/chat",
    )
    assert values["DEBUG"] is True
    assert values["CSRF_COOKIE_SECURE"] is False
    assert values["ALLOWED_HOSTS"] == ["a.example", "b.example"]
    assert values["RELAY_MODELS"] == "/models.toml"
    wanted = dataclasses.replace(
        RelayConfig(), lease_s=7.5, max_viewers_per_response=3, capture_dir="/var/captures"
    )
    assert values["RELAY"] == repr(wanted)
    database = values["DATABASES"]["default"]
    assert (database["HOST"], database["PORT"], database["NAME"]) == ("db.example", 5433, "chat")
    assert database["CONN_MAX_AGE"] is None
    assert "OPTIONS" not in database or "transaction_mode" not in database["OPTIONS"]


def test_sqlite_is_set_up_for_several_processes(tmp_path: Path) -> None:
    path = tmp_path / "new folder" / "db.sqlite3"
    path.parent.mkdir()
    database = load("DATABASES", DATABASE_URL=f"sqlite:///{path}")["DATABASES"]["default"]
    assert database["NAME"] == str(path)
    assert database["OPTIONS"]["transaction_mode"] == "IMMEDIATE"
    assert database["OPTIONS"]["timeout"] == 5
    assert "journal_mode=WAL" in database["OPTIONS"]["init_command"]


def test_a_number_that_is_none_is_refused() -> None:
    with pytest.raises(subprocess.CalledProcessError) as failed:
        load("RELAY", RELAY_LEASE_S="soon")
    assert "ImproperlyConfigured: RELAY_LEASE_S: " in failed.value.stderr


def test_a_redis_url_that_names_no_redis_is_said_without_its_password() -> None:
    with pytest.raises(subprocess.CalledProcessError) as failed:
        load("REDIS_URL", REDIS_URL="redis+sentinel://:hush@127.0.0.1:26379")
    last = failed.value.stderr.splitlines()[-1]
    assert "ImproperlyConfigured: REDIS_URL: after the Sentinels comes /name" in last
    assert "hush" not in last


def test_every_limit_of_relay_is_a_setting_with_a_meaning() -> None:
    documented = {setting.name: setting for setting in module.SETTINGS_DOC}
    for field in dataclasses.fields(RelayConfig):
        setting = documented[f"RELAY_{field.name.upper()}"]
        assert setting.meaning
        default = "" if setting.default == "none" else float(setting.default)
        assert default == field.default


def test_every_setting_is_documented_once() -> None:
    names = [setting.name for setting in module.SETTINGS_DOC]
    assert len(names) == len(set(names))
    assert all(setting.default and setting.meaning for setting in module.SETTINGS_DOC)
    for name in ("DATABASE_URL", "REDIS_URL", "RELAY_MODELS", "RELAY_EMBEDDED", "SECRET_KEY"):
        assert name in names


def test_nobody_else_reads_the_environment() -> None:
    allowed = {"settings.py", "asgi.py", "dev.py"}
    for path in (ROOT / "chatapp").rglob("*.py"):
        if path.name not in allowed:
            assert "environ[" not in path.read_text(), path
            assert "os.getenv" not in path.read_text(), path


def test_a_providers_key_is_read_by_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAST_KEY", "sk-1")
    monkeypatch.setenv("EMPTY_KEY", "")
    assert module.model_key("FAST_KEY") == "sk-1"
    assert module.model_key("EMPTY_KEY") is None
    assert module.model_key("NO_SUCH_KEY") is None
