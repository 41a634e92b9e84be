from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

from tests import ports

ROOT = Path(__file__).resolve().parent.parent


def test_no_port_is_one_that_connections_come_from() -> None:
    range_ = Path("/proc/sys/net/ipv4/ip_local_port_range")
    first = int(range_.read_text().split()[0]) if range_.exists() else 32768
    assert first > ports.LAST
    assert all(ports.FIRST <= ports.free_port() <= ports.LAST for _ in range(ports.HELD * 2))


def test_a_port_that_somebody_listens_on_is_not_given() -> None:
    port = ports.free_port()
    assert not ports._taken(port)
    with socket.create_server(("127.0.0.1", port)):
        assert ports._taken(port)


def test_what_one_process_was_given_no_other_claims() -> None:
    port = ports.free_port()
    asks = f"from tests import ports; print(ports._claimed({port}))"
    said = subprocess.run(
        [sys.executable, "-c", asks], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert said.stdout.strip() == "False"
    assert not ports._claimed(port)
