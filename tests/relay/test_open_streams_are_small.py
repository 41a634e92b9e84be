"""What is kept of each open stream. Objects of one class share the keys of their dictionaries, but
only up to thirty (CPython's SHARED_KEYS_MAX_SIZE): one attribute more costs kilobytes a stream."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from relay.follow import follow
from relay.generate import Committer, Writer
from relay.store import Claim, Claimed

if TYPE_CHECKING:
    from relay.config import RelayConfig
    from relay.generate.writer import Owner
    from relay.hub import Hub
    from relay.store import Lease, Store
    from tests.relay.scribe import Scribe

SHARED_KEYS = 30


async def test_a_writer_shares_its_keys(store: Store, config: RelayConfig) -> None:
    lease = cast("Lease", None)
    claim = Claim(outcome=Claimed.RUN)
    writer = Writer(Committer(store, config.flush_max_ms), cast("Owner", None), lease, claim)
    assert len(vars(writer)) < SHARED_KEYS


async def test_a_view_and_its_watch_share_their_keys(scribe: Scribe, hub: Hub) -> None:
    await scribe.begin()
    async with await follow(hub, scribe.rid, viewer="login/one") as view:
        assert len(vars(view)) < SHARED_KEYS
        assert len(vars(view._watch)) < SHARED_KEYS
