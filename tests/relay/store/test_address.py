"""What REDIS_URL may say, and that nothing of it but hosts is ever shown."""

from __future__ import annotations

import pytest

from relay.store.address import read_address


@pytest.mark.parametrize(
    ("url", "wanted", "hosts"),
    [
        ("redis://127.0.0.1:6379/0", "server", (("127.0.0.1", 6379),)),
        ("rediss://:secret@redis.example", "server", (("redis.example", 6379),)),
        ("unix://:secret@/run/redis/socket?db=0", "server", ()),
        ("redis+sentinel://a:26379,b:26380/main/0", "sentinel", (("a", 26379), ("b", 26380))),
        ("redis+sentinel://:secret@a,b,[::1]:7/main", "sentinel",
         (("a", 26379), ("b", 26379), ("::1", 7))),
        ("redis+cluster://a:7000,b:7001/", "cluster", (("a", 7000), ("b", 7001))),
        ("rediss+cluster://me:secret@a", "cluster", (("a", 6379),)),
    ],
)  # fmt: skip
def test_hosts(url: str, wanted: str, hosts: tuple[tuple[str, int], ...]) -> None:
    address = read_address(url)
    assert (address.kind, address.hosts) == (wanted, hosts)
    assert address.tls == url.startswith("rediss")
    assert "secret" not in repr(address)


def test_what_is_for_servers_and_what_is_for_sentinels() -> None:
    address = read_address(
        "rediss+sentinel://me:p%40ss@a,b/main/3?sentinel_username=s&sentinel_password=q%2Fr"
        "&ssl_ca_certs=/etc/ca.pem&ssl_check_hostname=no"
    )
    tls = {"ssl_ca_certs": "/etc/ca.pem", "ssl_check_hostname": False}
    assert address.name == "main"
    assert address.options == {"username": "me", "password": "p@ss", "db": 3, **tls}
    assert address.sentinel_options == {"username": "s", "password": "q/r", **tls}


@pytest.mark.parametrize(
    "url",
    [
        "",
        "localhost:6379",
        "http://localhost",
        "redis+proxy://a",
        "redis://a:secret,b:6379/0",
        "redis://:secret@a:port/0",
        "redis+sentinel://:secret@a:26379",
        "redis+sentinel://:secret@a:26379/main/x",
        "redis+sentinel://:secret@/main",
        "redis+sentinel://:secret@a:secret/main",
        "redis+cluster://:secret@a/1",
        "redis+cluster://:secret@a?db=1",
    ],
)
def test_what_names_no_redis_is_refused_in_words_without_the_secret(url: str) -> None:
    with pytest.raises(ValueError, match=r"\w+ \w+") as caught:
        read_address(url)
    assert "secret" not in str(caught.value)
    assert caught.value.__cause__ is None
