"""`manage.py check --deploy`: silent for the environment that the README shows, and only then."""

from __future__ import annotations

import dataclasses
import os
import re
import secrets
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings as project
from django.core.checks import run_checks
from redis import Redis

from tests.valkey import PrivateValkey

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def kept_valkey() -> Iterator[PrivateValkey]:
    """With an append-only file, as a site should have it."""
    server = PrivateValkey(persist=True)
    try:
        yield server.start()
    finally:
        server.close()


def production() -> dict[str, str]:
    """The block of the README, with the reader's own values put in."""
    readme = (ROOT / "README.md").read_text()
    block = readme.partition("A production environment:\n\n")[2].partition("\n\n")[0]
    lines = re.findall(r"^    (\w+)=(\S*)", block, re.MULTILINE)
    assert len(lines) >= 7, block
    return dict(lines)


def check(redis_url: str, folder: Path, **changed: str) -> tuple[int, str]:
    environment = {
        "PATH": os.environ.get("PATH", ""),
        "HOME": str(folder),
        "ANTHROPIC_API_KEY": "x",
        "OPENAI_API_KEY": "x",
        **production(),
        "SECRET_KEY": secrets.token_urlsafe(50),
        "DATABASE_URL": f"sqlite:///{folder / 'db.sqlite3'}",
        "REDIS_URL": redis_url,
        **changed,
    }
    command = [sys.executable, "manage.py", "check", "--deploy", "--fail-level", "WARNING"]
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    return done.returncode, done.stdout + done.stderr


def test_the_readmes_environment_is_clean(kept_valkey: PrivateValkey, tmp_path: Path) -> None:
    status, said = check(kept_valkey.url, tmp_path)
    assert "System check identified no issues (3 silenced)." in said
    assert status == 0


def test_a_careless_environment_is_told_everything(redis_url: str, tmp_path: Path) -> None:
    status, said = check(
        redis_url,
        tmp_path,
        DEBUG="1",
        SECRET_KEY="short",
        SECURE_SSL_REDIRECT="0",
        TRUSTED_PROXIES="everybody",
        RELAY_LEASE_S="90",
        RELAY_RETENTION_S="60",
        WEB_CONCURRENCY="4",
    )
    assert status == 1
    # Django's: W009 weak key, W010 cookies, W018 DEBUG.
    for number in ("009", "010", "018"):
        assert f"security.W{number}" in said, number
    for ours in ("E004", "W003", "W006", "W007", "W008", "W009"):
        assert f"chatapp.{ours}" in said, ours
    assert "short" not in said.replace("shorter", "")


def deploy_ids(settings: Any, redis_url: str) -> list[str]:
    settings.REDIS_URL = redis_url
    settings.SECURE_SSL_REDIRECT = True
    found = run_checks(include_deployment_checks=True)
    return [check.id for check in found if check.id and check.id.startswith("chatapp")]


def test_a_redis_that_evicts_is_told(redis_url: str, settings: Any) -> None:
    with Redis.from_url(redis_url) as client:
        assert deploy_ids(settings, redis_url) == ["chatapp.W006"]
        client.config_set("appendonly", "yes")
        client.config_set("maxmemory-policy", "allkeys-lru")
        try:
            assert deploy_ids(settings, redis_url) == ["chatapp.W005"]
        finally:
            client.config_set("maxmemory-policy", "noeviction")
            client.config_set("appendonly", "no")


@pytest.mark.parametrize(
    ("version", "told"), [("7.0.15", ["chatapp.E007"]), ("7.2.0", []), ("8.0.3", [])]
)
def test_a_redis_that_does_not_see_idle_workers_is_told(
    version: str,
    told: list[str],
    kept_valkey: PrivateValkey,
    settings: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Debian 12 has such a one."""
    real = Redis.info
    monkeypatch.setattr(Redis, "info", lambda self: real(self) | {"redis_version": version})
    assert deploy_ids(settings, kept_valkey.url) == told


def test_a_redis_that_is_away_is_told_without_its_password(settings: Any) -> None:
    settings.REDIS_URL = "redis://:secret-of-redis@127.0.0.1:9/0"
    found = [c for c in run_checks(include_deployment_checks=True) if c.id == "chatapp.W004"]
    assert len(found) == 1
    assert "secret-of-redis" not in str(found)


@pytest.mark.parametrize("proxy", ["*", "", "proxy.example", "0.0.0.0/0", "::/0", "10.0.0.1/8"])
def test_trusting_everybody_is_an_error(proxy: str, settings: Any) -> None:
    settings.TRUSTED_PROXIES = ["127.0.0.1", "10.0.0.0/8", "::1", proxy]
    assert [c.id for c in run_checks()] == ["chatapp.E004"]


@pytest.mark.parametrize(
    "spans",
    [{"lease_s": 60.0}, {"retention_s": 299.0}, {"retention_s": 8 * 86_400.0}],
    ids=["lease", "short", "long"],
)
def test_spans_that_contradict_each_other_are_told(
    spans: dict[str, float], kept_valkey: PrivateValkey, settings: Any
) -> None:
    assert deploy_ids(settings, kept_valkey.url) == []
    settings.RELAY = dataclasses.replace(settings.RELAY, **spans)
    assert deploy_ids(settings, kept_valkey.url) == ["chatapp.W003"]


def test_what_is_silenced_is_asked_by_our_own_checks() -> None:
    names = [f"security.W00{n}" for n in (1, 2, 3)]
    assert names == project.SILENCED_SYSTEM_CHECKS


@pytest.mark.parametrize("name", ["Security", "Csrf", "Frames"])
def test_a_middleware_that_is_missing_is_an_error(name: str, settings: Any) -> None:
    settings.MIDDLEWARE = [one for one in settings.MIDDLEWARE if not one.endswith(name)]
    assert [c.id for c in run_checks()] == ["chatapp.E005"]


def test_both_chains_of_middleware_have_the_headers() -> None:
    assert "chatapp.middleware.on_loop.Security" in project.API_MIDDLEWARE


def test_nginxs_example_names_what_the_readme_promises() -> None:
    example = (ROOT / "deploy" / "nginx.conf").read_text()
    for directive in (
        *("client_header_timeout", "client_body_timeout", "client_max_body_size", "limit_conn "),
        *("proxy_buffering off", "X-Forwarded-For $remote_addr", "X-Forwarded-Proto $scheme"),
    ):
        assert directive in example, directive


def test_the_server_is_told_to_believe_no_proxy() -> None:
    """One place decides: TRUSTED_PROXIES. uvicorn alone would believe everything on 127.0.0.1."""
    for path in ("deploy/uvicorn.sh", "chatapp/management/embedded.py"):
        text = (ROOT / path).read_text()
        assert "--no-proxy-headers" in text, path
        assert not re.search(r"(?<!no-)proxy-headers", text), path
