"""Room on a real server: how full it is, and the other ways in which it takes no writes."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from relay.config import RelayConfig
from relay.errors import StoreRefused
from relay.request import GenerationRequest
from relay.store import RedisStore
from relay.store.room import share_of
from tests.relay.store.words import AT
from tests.valkey import PrivateValkey
from tests.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

RID = "resp_0_" + "0" * 32
REQUEST = GenerationRequest(response_id=RID, model="fast", messages=[], created_at=AT)


@pytest.fixture
def server() -> Iterator[PrivateValkey]:
    valkey = PrivateValkey().start()
    yield valkey
    valkey.close()


@pytest.fixture
async def store(server: PrivateValkey) -> AsyncIterator[RedisStore]:
    made = RedisStore(server.url, RelayConfig())
    yield made
    await made.aclose()


def info(**values: object) -> bytes:
    return b"# Memory\r\n" + b"".join(f"{k}:{v}\r\n".encode() for k, v in values.items())


@pytest.mark.parametrize(
    ("reply", "share"),
    [
        (info(used_memory=900, maxmemory=1000, maxmemory_policy="noeviction"), 0.9),
        (info(used_memory=900, maxmemory=0, maxmemory_policy="noeviction"), 0.0),
        (info(used_memory=999, maxmemory=1000, maxmemory_policy="allkeys-lru"), 0.0),
        (
            info(
                used_memory=900,
                maxmemory=1000,
                maxmemory_policy="noeviction",
                mem_not_counted_for_evict=400,
            ),
            0.5,
        ),
        (b"", 0.0),
    ],
)
def test_what_counts_is_what_the_server_would_refuse_by(reply: bytes, share: float) -> None:
    assert share_of(reply) == share


def fill_to(server: PrivateValkey, share: float) -> None:
    server.ask("SETRANGE", "ballast", "40000000", "x")  # beside it all else is nothing
    used = int(server.ask("INFO", "memory")["used_memory"])
    server.ask("CONFIG", "SET", "maxmemory", str(round(used / share)))


async def test_new_answers_are_refused_before_the_memory_is_used_up(
    server: PrivateValkey, store: RedisStore
) -> None:
    """The server itself would still take it: those that run need the rest."""
    fill_to(server, 0.95)
    with pytest.raises(StoreRefused, match=r"9\d% of the store's maxmemory"):
        await store.room()
    assert await store.create(REQUEST, upstream_model="small")


async def test_below_the_share_there_is_room(server: PrivateValkey, store: RedisStore) -> None:
    fill_to(server, 0.5)
    await store.room()


async def test_a_share_of_0_leaves_it_to_the_server(server: PrivateValkey) -> None:
    store = RedisStore(server.url, RelayConfig(max_store_share=0))
    fill_to(server, 0.95)
    await store.room()
    await store.aclose()


async def test_a_question_does_not_ask_for_the_memory_again_at_once(
    server: PrivateValkey, store: RedisStore
) -> None:
    for _ in range(50):
        await store.room()
    calls = server.ask("INFO", "commandstats")
    assert calls["cmdstat_info"]["calls"] == 1


async def test_a_replica_takes_no_new_answer_and_is_left_for_the_server_of_that_name(
    server: PrivateValkey, store: RedisStore
) -> None:
    await store.room()
    before = _clients(server)
    server.ask("REPLICAOF", "127.0.0.1", "1")
    for _ in range(2):
        with pytest.raises(StoreRefused):
            await store.create(REQUEST, upstream_model="small")
    server.stop_following()
    assert await store.create(REQUEST, upstream_model="small")
    assert before
    assert not before & _clients(server), "its connection was kept"


async def test_a_server_that_cannot_save_takes_no_new_answer(
    server: PrivateValkey, store: RedisStore
) -> None:
    server.ask("CONFIG", "SET", "save", "3600 1")
    shutil.rmtree(server.folder)
    server.ask("BGSAVE")

    async def failed() -> bool:
        status = server.ask("INFO", "persistence")["rdb_last_bgsave_status"]
        return bool(status != "ok")

    await wait_until(failed, "the save to fail")
    for call in (store.room(), store.create(REQUEST, upstream_model="small")):
        with pytest.raises(StoreRefused, match="MISCONF"):
            await call


def _clients(server: PrivateValkey) -> set[str]:
    """Of stores: the one that asks is another each time."""
    lines: list[str] = server.ask("CLIENT", "LIST").splitlines()
    return {line.split()[0] for line in lines if "cmd=client|list" not in line}
