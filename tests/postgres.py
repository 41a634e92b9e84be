"""A PostgreSQL server of a test's own, from the binaries that the wheel `pgserver` carries.

`python -m tests.postgres COMMAND…` runs a command with DATABASE_URL naming a fresh one.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Self

from chatapp.management.child import die_with
from tests.ports import free_port

START_S = 30.0
NOBODY = 65534
"""PostgreSQL refuses to run as root."""


class PrivatePostgres:
    """One server on 127.0.0.1. Nothing is synced to the disk: a test's machine does not crash."""

    def __init__(self) -> None:
        self.port = free_port()
        self._folder = Path(tempfile.mkdtemp(prefix="unbroken-postgres-"))
        wheel = find_spec("pgserver")  # not imported: it makes folders and warns
        assert wheel is not None
        assert wheel.origin is not None
        package = Path(wheel.origin).parent
        self._as: dict[str, Any] = {}
        if os.geteuid() == 0:
            # Another user may not be able to look into root's folders.
            for part in (package, package.with_name("pgserver.libs")):
                shutil.copytree(part, self._folder / part.name)
            package = self._folder / package.name
            self._as = {"user": NOBODY, "group": NOBODY, "extra_groups": []}
            self._folder.chmod(0o755)
        self._programs = package / "pginstall"
        self._data = self._folder / "data"
        self._process: subprocess.Popen[bytes] | None = None

    def __repr__(self) -> str:
        state = f"pid {self._process.pid}" if self._process else "stopped"
        return f"<PrivatePostgres port {self.port}, {state}>"

    @property
    def url(self) -> str:
        return f"postgres://unbroken@127.0.0.1:{self.port}/postgres"

    @property
    def log(self) -> str:
        path = self._folder / "postgres.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def start(self) -> Self:
        """Return when it takes connections. Raises RuntimeError with its log when it does not."""
        if not self._data.exists():
            self._make_cluster()
        with (self._folder / "postgres.log").open("ab") as log:
            self._process = subprocess.Popen(
                self._command(),
                cwd=self._data,
                stdout=log,
                stderr=log,
                preexec_fn=die_with(os.getpid()),  # a killed test run leaves no server behind
                **self._as,
            )
        deadline = time.monotonic() + START_S
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                raise RuntimeError(f"the tests' PostgreSQL did not start:\n{self.log}")
            time.sleep(0.02)
        return self

    def kill(self) -> None:
        """As in a crash. Safe to repeat; `start` finds the data again."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
            (self._data / "postmaster.pid").unlink(missing_ok=True)

    def close(self) -> None:
        """Stop the server and remove its folder."""
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(10)
            except subprocess.TimeoutExpired:
                self.kill()
            self._process = None
        shutil.rmtree(self._folder, ignore_errors=True)

    def _make_cluster(self) -> None:
        self._data.mkdir(mode=0o700)
        if self._as:
            os.chown(self._data, NOBODY, NOBODY)
        done = subprocess.run(
            [
                *(self._programs / "bin" / "initdb", "--pgdata", self._data),
                *("--username", "unbroken", "--auth", "trust", "--encoding", "UTF8", "--no-sync"),
                *("--locale", "C"),
            ],
            cwd=self._data,
            capture_output=True,
            text=True,
            check=False,
            **self._as,
        )
        if done.returncode:
            raise RuntimeError(f"initdb failed:\n{done.stdout}{done.stderr}")

    def _command(self) -> list[str]:
        settings = {
            "listen_addresses": "127.0.0.1",
            "port": str(self.port),
            "unix_socket_directories": "",
            "fsync": "off",
            "full_page_writes": "off",
            "max_connections": "200",
        }
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        return [str(self._programs / "bin" / "postgres"), "-D", str(self._data), *options]

    def _answers(self) -> bool:
        asked = subprocess.run(
            [self._programs / "bin" / "pg_isready", "-h", "127.0.0.1", "-p", str(self.port), "-q"],
            check=False,
        )
        return asked.returncode == 0


def main() -> int:
    server = PrivatePostgres()
    try:
        server.start()
        environment = {**os.environ, "DATABASE_URL": server.url}
        return subprocess.run(sys.argv[1:], env=environment, check=False).returncode
    finally:
        server.close()


if __name__ == "__main__":
    sys.exit(main())
