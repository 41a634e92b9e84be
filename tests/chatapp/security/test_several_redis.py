"""Sentinels and a cluster behind REDIS_URL: attempts to sign in, and what `check --deploy` says."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import pytest

from chatapp.auth.attempts import Attempts
from tests.chatapp.security.test_deploy import deploy_ids
from tests.valkey_cluster import PrivateCluster
from tests.valkey_sentinel import PrivateSentinels
from tests.waiting import wait_until_sync

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def cluster() -> Iterator[PrivateCluster]:
    with PrivateCluster() as cluster:
        yield cluster


def test_attempts_follow_a_fail_over(caplog: pytest.LogCaptureFixture) -> None:
    with PrivateSentinels() as trio:
        here, there = Attempts(trio.url, {}), Attempts(trio.url, {})
        here.set("ann", [1.5], 60)
        old = trio.primary()
        old.ask("WAIT", "1", "5000")
        old.kill()
        trio.until_replaced(old)
        # A Sentinel may not know it yet: until then each process counts alone.
        wait_until_sync(lambda: there.get("ann", []) == [1.5], "the new primary, there")
        wait_until_sync(lambda: here.get("ann", []) == [1.5], "the new primary, here")
        caplog.clear()
        here.set("ann", [2.5], 60)
        assert there.get("ann", []) == [2.5]
        assert "this process alone" not in caplog.text


def test_attempts_are_counted_in_a_cluster(
    cluster: PrivateCluster, caplog: pytest.LogCaptureFixture
) -> None:
    here, there = Attempts(cluster.url, {}), Attempts(cluster.url, {})
    for name in "abcdefgh":
        here.set(name, [1.5], 60)
        assert there.get(name, []) == [1.5]
        assert there.add(name, True) is False
    assert "this process alone" not in caplog.text


@pytest.mark.parametrize("kind", ["cluster://127.0.0.1:9/", "sentinel://127.0.0.1:9/main"])
def test_without_any_of_them_a_process_counts_for_itself(
    kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    alone = Attempts(f"redis+{kind}".replace("//", "//:secret-of-redis@"), {})
    alone.delete("x")
    assert alone.add("x", True, timeout=10) is True
    assert alone.add("x", True, timeout=10) is False
    assert "this process alone" in caplog.text
    assert "secret-of-redis" not in caplog.text


def test_a_cluster_with_primaries_that_get_nothing_is_told(
    cluster: PrivateCluster, settings: Any
) -> None:
    assert deploy_ids(settings, cluster.url) == ["chatapp.W012", "chatapp.W006"]
    settings.RELAY = dataclasses.replace(settings.RELAY, shards=4)
    assert deploy_ids(settings, cluster.url) == ["chatapp.W006"]
    one = cluster.url.partition(",")[0] + "/"
    assert deploy_ids(settings, one) == ["chatapp.W010", "chatapp.W006"]


def test_replicas_that_a_primary_does_not_wait_for_are_told(settings: Any) -> None:
    with PrivateSentinels() as trio:
        assert deploy_ids(settings, trio.url) == ["chatapp.W006", "chatapp.W011"]
        trio.primary().ask("CONFIG", "SET", "min-replicas-to-write", "1")
        wait_until_sync(
            lambda: deploy_ids(settings, trio.url) == ["chatapp.W006"],
            "only the file to be missing",
        )


@pytest.mark.parametrize(
    "url",
    ["redis+cluster://127.0.0.1:9,127.0.0.1:10/", "redis+sentinel://127.0.0.1:9,127.0.0.1:10/main"],
)
def test_several_that_are_all_away_are_told(url: str, settings: Any) -> None:
    assert deploy_ids(settings, url) == ["chatapp.W004"]
