"""Ports of 127.0.0.1 for servers that tests start: nobody else takes one before its server does.

A port that the kernel gave and that was closed again is anybody's: a connection that another test
opens may come from it, and the server then says "address already in use" and the test fails. These
lie below the kernel's range for connections (from 32768 on, ip_local_port_range), and of test
processes beside each other no two are given the same one.
"""

from __future__ import annotations

import random
import socket
import sys
from collections import deque
from typing import Final

FIRST: Final = 10_000
LAST: Final = 31_999
HELD: Final = 64
"""Names kept by a process, a file descriptor each: more than are given before a server listens."""

# Not the module's own functions: hypothesis seeds those, and each example had the same ports.
_random: Final = random.SystemRandom()
_names: Final[deque[socket.socket]] = deque(maxlen=HELD)


def free_port() -> int:
    """A port that nobody listens on, also after its server was killed and is started again."""
    while True:
        port = _random.randint(FIRST, LAST)
        if _claimed(port) and not _taken(port):
            return port


def _claimed(port: int) -> bool:
    if sys.platform != "linux":
        return True  # no names that vanish with their process
    name = socket.socket(socket.AF_UNIX)
    try:
        name.bind(f"\0unbroken-tests-port-{port}")
    except OSError:
        name.close()
        return False
    if len(_names) == HELD:
        _names.popleft().close()
    _names.append(name)
    return True


def _taken(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return True
    return False
