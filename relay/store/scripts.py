"""The Lua scripts, loaded from `lua/`, and how each is called.

A flag line is put before each source: under `maxmemory` with noeviction a script without
`allow-oom` is refused, which is right for what makes logs longer (create, append) and wrong for
what ends them (PROTOCOL 3).
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha1
from importlib.resources import files
from typing import Final


@dataclass(frozen=True, slots=True)
class Script:
    name: str
    source: bytes
    sha: str


def _load(name: str, flags: str, *parts: str) -> Script:
    lua = files("relay.store").joinpath("lua")
    bodies = [lua.joinpath(f"{part}.lua").read_text("utf-8") for part in parts or (name,)]
    head = f"#!lua flags={flags}\n" if flags else "#!lua\n"
    source = (head + "".join(bodies)).encode()
    return Script(name, source, sha1(source).hexdigest())  # noqa: S324 - Redis names scripts by SHA-1


CREATE: Final = _load("create", "")
APPEND: Final = _load("append", "", "unknown", "write")
CLOSE: Final = _load("close", "allow-oom", "unknown", "write")
RESTORE: Final = _load("restore", "allow-oom")
CLAIM: Final = _load("claim", "allow-oom", "run", "claim")
NOTICE: Final = _load("notice", "allow-oom", "run", "notice")
RENEW: Final = _load("renew", "allow-oom", "unknown", "renew")
RELEASE: Final = _load("release", "allow-oom")
ACK: Final = _load("ack", "allow-oom")
CANCEL: Final = _load("cancel", "allow-oom", "run", "cancel")
EXPIRE: Final = _load("expire", "allow-oom", "run", "expire")
RETIRE: Final = _load("retire", "allow-oom")
ATTEND: Final = _load("attend", "allow-oom")
BEAT: Final = _load("beat", "allow-oom")
LEAVE: Final = _load("leave", "allow-oom")
READ: Final = _load("read", "no-writes")
ABANDONED: Final = _load("abandoned", "no-writes")
RESERVE: Final = _load("reserve", "")
SETTLE: Final = _load("settle", "allow-oom")
REFILL: Final = _load("refill", "allow-oom")
UNRESERVE: Final = _load("unreserve", "allow-oom")
