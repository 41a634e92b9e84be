"""Which Redis is meant: one server, the primary that Sentinels name, or a cluster.

    redis://[user:password@]host[:6379][/db]         one server; also rediss:// and unix://
    redis+sentinel://[user:password@]host[:26379],host…/name[/db]
    redis+cluster://[user:password@]host[:6379],host…/

`rediss+sentinel` and `rediss+cluster` speak TLS, to the Sentinels as well. User and password are
the servers'; Sentinels have theirs in `?sentinel_username=…&sentinel_password=…`. All other options
are those of redis-py's own URLs (`ssl_ca_certs`, `ssl_check_hostname` …). One node that answers is
enough, the others are learned from it; Sentinels are asked as they are listed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal
from urllib.parse import SplitResult, urlsplit

from redis.asyncio.connection import parse_url

Host = tuple[str, int]
Kind = Literal["server", "sentinel", "cluster"]

_PORTS: Final[Mapping[str, int]] = {"sentinel": 26379, "cluster": 6379}
_PLAIN: Final = ("redis", "rediss", "unix")
_SENTINEL: Final = "sentinel_"


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """What `read_address` found. Its repr has no secret."""

    kind: Kind
    hosts: tuple[Host, ...]
    """Sentinels or nodes; of one server only this server, and of a Unix socket none."""
    name: str = ""
    """Under which the Sentinels know the primary."""
    tls: bool = False
    url: str = field(default="", repr=False)
    """As it was given."""
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """Arguments of redis-py's connections to Sentinels' servers and to nodes, but for host and
    port."""
    sentinel_options: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """The same of connections to Sentinels."""


def read_address(url: str) -> Address:
    """Raises ValueError with a sentence that does not quote the URL, which holds a password."""
    try:
        parts = urlsplit(url)
        scheme, _, kind = parts.scheme.partition("+")
        if parts.scheme in _PLAIN:
            return _server(url, parts)
    except ValueError:
        raise ValueError(
            "it is no URL; a password's @, / and : are written %40, %2F, %3A"
        ) from None
    if scheme not in ("redis", "rediss") or kind not in ("sentinel", "cluster"):
        known = "redis://, rediss://, unix://, redis+sentinel:// or redis+cluster://"
        raise ValueError(f"it must begin with {known}")
    secrets, _, listed = parts.netloc.rpartition("@")
    hosts = tuple(_host(text, _PORTS[kind]) for text in listed.split(",") if text)
    if not hosts:
        raise ValueError("it names no host")
    options = dict(parse_url(f"{scheme}://{secrets and secrets + '@'}host?{parts.query}"))
    for word in ("host", "connection_class"):
        options.pop(word, None)
    tls = scheme == "rediss"
    path = parts.path.strip("/").split("/") if parts.path.strip("/") else []
    if kind == "cluster":
        if path not in ([], ["0"]) or options.pop("db", 0):
            raise ValueError("a cluster has no database but 0")
        return Address(kind="cluster", hosts=hosts, tls=tls, url=url, options=options)
    if not path or len(path) > 2 or (len(path) == 2 and not path[1].isdecimal()):
        raise ValueError("after the Sentinels comes /name or /name/db, as in …:26379/mymaster/0")
    if len(path) == 2:
        options["db"] = int(path[1])
    own = {word: options.pop(word) for word in list(options) if word.startswith(_SENTINEL)}
    shared = {word: value for word, value in options.items() if word.startswith("ssl_")}
    return Address(
        kind="sentinel",
        hosts=hosts,
        name=path[0],
        tls=tls,
        url=url,
        options=options,
        sentinel_options=shared | {w.removeprefix(_SENTINEL): v for w, v in own.items()},
    )


def _server(url: str, parts: SplitResult) -> Address:
    if parts.scheme == "unix":
        return Address(kind="server", hosts=(), url=url)
    if "," in parts.netloc.rpartition("@")[2]:
        raise ValueError
    host = (parts.hostname or "localhost", parts.port or _PORTS["cluster"])
    parse_url(url)
    return Address(kind="server", hosts=(host,), url=url, tls=parts.scheme == "rediss")


def _host(text: str, default_port: int) -> Host:
    try:
        parts = urlsplit(f"//{text}")
        if not parts.hostname or parts.path or parts.query:
            raise ValueError
        return parts.hostname, parts.port or default_port
    except ValueError:
        raise ValueError("hosts are separated by commas: host:port,host:port") from None
