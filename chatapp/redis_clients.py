"""Blocking clients of the Redis that REDIS_URL names: for the cache of attempts, and for checks."""

from __future__ import annotations

from typing import Any

from redis import Redis, RedisCluster
from redis.backoff import NoBackoff
from redis.cluster import ClusterNode
from redis.exceptions import ConnectionError, RedisClusterException
from redis.retry import Retry
from redis.sentinel import Sentinel

from relay import read_address


def connect(url: str, timeout_s: float) -> Redis | RedisCluster:
    """Follows a fail-over by itself: Sentinels, or a cluster, are asked for each connection.

    Args:
        timeout_s: of connecting and of a reply.
    Raises:
        ConnectionError: no node of a cluster answers; all else connects when it is used.
    """
    address = read_address(url)
    waits: dict[str, Any] = {"socket_timeout": timeout_s, "socket_connect_timeout": timeout_s}
    once = waits | {"retry": Retry(NoBackoff(), 0)}
    if address.kind == "server":
        return Redis.from_url(url, **once)
    if address.kind == "sentinel":
        sentinels = Sentinel(  # type: ignore[no-untyped-call]
            list(address.hosts),
            sentinel_kwargs=once | {"ssl": address.tls} | dict(address.sentinel_options),
        )
        primary: Redis = sentinels.master_for(  # type: ignore[no-untyped-call]
            address.name, **once | {"ssl": address.tls} | dict(address.options)
        )
        return primary
    nodes = [ClusterNode(host, port) for host, port in address.hosts]  # type: ignore[no-untyped-call]
    options: dict[str, Any] = waits | {"ssl": address.tls} | dict(address.options)
    try:
        return RedisCluster(startup_nodes=nodes, **options)
    except RedisClusterException as error:  # which is no RedisError
        raise ConnectionError("no node of the cluster answers") from error
