"""A Valkey Cluster of a test's own: real nodes, slots shared out, a replica for each if wanted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from redis import ResponseError
from redis.crc import key_slot

from tests.ports import free_port
from tests.valkey import PrivateValkey
from tests.waiting import wait_until_sync

if TYPE_CHECKING:
    from types import TracebackType

SLOTS = 16384
NODE_TIMEOUT_MS = 1000
"""After which a node counts as failed; its replica is promoted a second or two later."""
START_S = 20.0


class PrivateCluster:
    """`with PrivateCluster(replicas=True) as cluster:` gives three primaries.

    Args:
        replicas: also a replica for each; `replica_of` is one of them.
    """

    def __init__(self, *, primaries: int = 3, replicas: bool = False) -> None:
        self.primaries = [_node() for _ in range(primaries)]
        self.replicas = [_node() for _ in range(primaries if replicas else 0)]

    @property
    def nodes(self) -> list[PrivateValkey]:
        return [*self.primaries, *self.replicas]

    @property
    def url(self) -> str:
        hosts = ",".join(f"127.0.0.1:{node.port}" for node in self.nodes)
        return f"redis+cluster://{hosts}/"

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        for node in self.nodes:
            node.close()

    def _start(self) -> None:
        for epoch, node in enumerate(self.nodes, 1):
            node.start()
            try:
                node.ask("CLUSTER", "SET-CONFIG-EPOCH", str(epoch))
            except ResponseError as error:
                # The client sends again what a busy machine has not answered in time.
                if "already non-zero" not in str(error):
                    raise
        count = len(self.primaries)
        for i, node in enumerate(self.primaries):
            first, last = SLOTS * i // count, SLOTS * (i + 1) // count - 1
            node.ask("CLUSTER", "ADDSLOTSRANGE", str(first), str(last))
        one = self.nodes[0]
        for node in self.nodes[1:]:
            bus = node.ask("CONFIG", "GET", "cluster-port")["cluster-port"]
            one.ask("CLUSTER", "MEET", "127.0.0.1", str(node.port), bus)
        wait_until_sync(self._all_know_all, "the nodes to know each other", timeout=START_S)
        for primary, replica in zip(self.primaries, self.replicas, strict=False):
            replica.ask("CLUSTER", "REPLICATE", primary.ask("CLUSTER", "MYID"))
        wait_until_sync(self._replicated, "the replicas to have everything", timeout=START_S)
        wait_until_sync(self._whole, "the cluster to serve", timeout=START_S)

    def _all_know_all(self) -> bool:
        wanted = len(self.nodes)
        return all(f"cluster_known_nodes:{wanted}\r" in _info(node) for node in self.nodes)

    def _replicated(self) -> bool:
        return all(
            node.ask("INFO", "replication")["master_link_status"] == "up" for node in self.replicas
        )

    def _whole(self) -> bool:
        """Every node says so, and no two of them disagree on who is a primary."""
        for node in self.nodes:
            if "cluster_state:ok\r" not in _info(node):
                return False
            if str(node.ask("CLUSTER", "NODES")).count("master") != len(self.primaries):
                return False
        return True

    def owner(self, key: str, *, by: PrivateValkey | None = None) -> PrivateValkey:
        """The primary that holds this key now, as one node sees it."""
        slot = key_slot(key.encode())
        rows: Any = (by or self.nodes[0]).ask("CLUSTER", "SLOTS")
        for first, last, primary, *_ in rows:
            if first <= slot <= last:
                return next(node for node in self.nodes if node.port == primary[1])
        raise AssertionError(f"nobody serves {key}")

    def flush(self) -> None:
        for node in self.nodes:
            if node.ask("ROLE")[0] == "master":
                node.ask("FLUSHALL")

    def move(self, key: str, target: PrivateValkey) -> None:
        """Give the slot of this key, and whatever is in it, to another node."""
        slot = str(key_slot(key.encode()))
        source = self.owner(key)
        target.ask("CLUSTER", "SETSLOT", slot, "IMPORTING", source.ask("CLUSTER", "MYID"))
        source.ask("CLUSTER", "SETSLOT", slot, "MIGRATING", target.ask("CLUSTER", "MYID"))
        self.move_keys(slot, source, target)
        for node in (target, source):
            node.ask("CLUSTER", "SETSLOT", slot, "NODE", target.ask("CLUSTER", "MYID"))

    def move_keys(self, slot: str, source: PrivateValkey, target: PrivateValkey) -> None:
        while names := source.ask("CLUSTER", "GETKEYSINSLOT", slot, "100"):
            to = ("127.0.0.1", str(target.port), "", "0", "5000", "KEYS")
            source.ask("MIGRATE", *to, *names)


def _node() -> PrivateValkey:
    return PrivateValkey(
        options=[
            *("--cluster-enabled", "yes", "--cluster-port", str(free_port())),
            *(
                "--cluster-node-timeout",
                str(NODE_TIMEOUT_MS),
                "--cluster-replica-validity-factor",
                "0",
            ),
        ]
    )


def _info(node: PrivateValkey) -> str:
    return str(node.ask("CLUSTER", "INFO"))
