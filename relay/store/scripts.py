"""The Lua scripts, loaded from `lua/`, and how each is called.

A flag line is put before each source: under `maxmemory` with noeviction a script without
`allow-oom` is refused, which is right for what makes logs longer (create, append) and wrong for
what ends them (PROTOCOL 3).
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from hashlib import sha1
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final

from redis.exceptions import NoScriptError, ResponseError

from relay.store.replies import failure_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from relay.store.lane import Carrier, Command


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


async def call(lane: Carrier, script: Script, key_names: Sequence[str], args: Command) -> Any:
    """Its reply. Raises StoreRefused, StoreUnavailable."""
    command = ("EVALSHA", script.sha, len(key_names), *key_names, *args)
    try:
        try:
            return await lane.send(command)
        except NoScriptError:
            # A server that has not met it: restarted, promoted, or another node of a cluster.
            return await lane.send(("EVAL", script.source, *command[2:]))
    except ResponseError as error:
        raise failure_of(script.name, error) from error


async def shielded(lane: Carrier, script: Script, key_names: Sequence[str], args: Command) -> Any:
    """As `call`, for whoever may lose patience: the script is carried out all the same."""
    called = asyncio.ensure_future(call(lane, script, key_names, args))
    # A shield that was cancelled does not look at what becomes of its task, nor does anybody else.
    called.add_done_callback(lambda done: done.cancelled() or done.exception())
    return await asyncio.shield(called)


CREATE: Final = _load("create", "", "early", "create")
APPEND: Final = _load("append", "", "unknown", "write")
CLOSE: Final = _load("close", "allow-oom", "unknown", "write")
RESTORE: Final = _load("restore", "allow-oom", "early", "restore")
CLAIM: Final = _load("claim", "allow-oom", "run", "patience", "claim")
NOTICE: Final = _load("notice", "allow-oom", "run", "notice")
RENEW: Final = _load("renew", "allow-oom", "unknown", "run", "patience", "renew")
RELEASE: Final = _load("release", "allow-oom")
ACK: Final = _load("ack", "allow-oom")
CANCEL: Final = _load("cancel", "allow-oom", "run", "cancel")
EXPIRE: Final = _load("expire", "allow-oom", "run", "expire")
RETIRE: Final = _load("retire", "allow-oom")
ATTEND: Final = _load("attend", "allow-oom")
BEAT: Final = _load("beat", "allow-oom")
LEAVE: Final = _load("leave", "allow-oom")
READ: Final = _load("read", "no-writes")
ABANDONED: Final = _load("abandoned", "allow-oom", "run", "patience", "abandoned")
PULSE: Final = _load("pulse", "no-writes")
ROOM: Final = _load("room", "")
RESERVE: Final = _load("reserve", "", "server", "reserve")
SETTLE: Final = _load("settle", "allow-oom")
REFILL: Final = _load("refill", "allow-oom")
UNRESERVE: Final = _load("unreserve", "allow-oom")
