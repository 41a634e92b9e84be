"""From REDIS_URL to `Servers`: the one place that chooses."""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from relay.store.address import read_address
from relay.store.cluster import ClusterServers
from relay.store.sentinel import SentinelServers
from relay.store.servers import OneServer

if TYPE_CHECKING:
    from relay.store.servers import Servers


def open_servers(url: str) -> Servers:
    """Connects to nothing yet. Raises ValueError for a URL that names no Redis."""
    address = read_address(url)
    match address.kind:
        case "server":
            return OneServer(url)
        case "sentinel":
            return SentinelServers(address)
        case "cluster":
            return ClusterServers(address)
        case _:
            assert_never(address.kind)
