"""What a writer has counted outlives it (PROTOCOL 3), and so does its word on upstreams (12)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from relay.store.protocol import Appended, Claimed, Reply
from tests.relay.store.words import ENDED, NOTICE, batch, leased, text

if TYPE_CHECKING:
    from relay.store import Batch, Lease, Store
    from tests.relay.store.ground import Ground

NOBODY = "resp_0_" + "0" * 32


def counting(lease: Lease, first_seq: int, delta: str, output_tokens: int) -> Batch:
    return replace(batch(lease, first_seq, text(delta)), output_tokens=output_tokens)


async def test_whoever_takes_over_is_told_what_the_last_writer_had_counted(
    ground: Ground, store: Store
) -> None:
    """PROTOCOL 3.8"""
    lease = await ground.run()
    await store.append([counting(lease, 3, "a", 4)])
    await store.append([counting(lease, 4, "b", 9)])
    await ground.lapse(lease)
    claim = await ground.claim(lease.job)
    assert (claim.outcome, claim.output_tokens) == (Claimed.TAKE_OVER, 9)
    assert await store.counted(lease.response_id) == 9


async def test_a_batch_that_is_sent_again_counts_once(ground: Ground, store: Store) -> None:
    """PROTOCOL 3.2"""
    lease = await ground.run()
    for _ in range(2):
        await store.append([counting(lease, 3, "a", 4)])
    assert await store.counted(lease.response_id) == 4


async def test_what_was_counted_last_comes_with_the_end(ground: Ground, store: Store) -> None:
    lease = await ground.run()
    await store.append([counting(lease, 3, "a", 4)])
    await store.close(replace(batch(lease, 4, ENDED), output_tokens=5))
    claim = await ground.claim(lease.job)
    assert (claim.outcome, claim.output_tokens) == (Claimed.CLOSED, 5)


async def test_a_second_run_begins_to_count_anew(ground: Ground, store: Store) -> None:
    lease = await ground.run()
    # Tokens that made no text yet: an engine's ids that are half a character.
    await store.append([replace(batch(lease, 3, NOTICE), output_tokens=2)])
    again = await ground.succeed(lease)
    assert await store.counted(again.response_id) == 0
    await ground.lapse(again)
    assert (await ground.claim(again.job)).output_tokens == 0


async def test_a_writer_that_is_fenced_counts_nothing(ground: Ground, store: Store) -> None:
    """PROTOCOL 2.3"""
    lease = await ground.run()
    await store.append([counting(lease, 3, "a", 4)])
    await ground.lapse(lease)
    taker = leased(await ground.claim(lease.job))
    (answer,) = await store.append([counting(lease, 4, "b", 400)])
    assert answer == Reply(Appended.FENCED)
    assert await store.counted(taker.response_id) == 4


async def test_of_an_unknown_response_nothing_was_counted(store: Store) -> None:
    assert await store.counted(NOBODY) == 0


async def test_the_last_report_of_each_worker_is_read_in_every_process(ground: Ground) -> None:
    """PROTOCOL 12.5"""
    assert await ground.second.upstreams() == {}
    await ground.store.report_upstreams("a", b"old", 60)
    await ground.store.report_upstreams("b", b"\xff\x00", 60)
    await ground.store.report_upstreams("a", b"new", 60)
    assert await ground.second.upstreams() == {"a": b"new", "b": b"\xff\x00"}


async def test_the_word_of_a_worker_that_is_gone_is_forgotten(ground: Ground) -> None:
    """PROTOCOL 12.5"""
    await ground.store.report_upstreams("b", b"stays", 60)
    await ground.store.report_upstreams("a", b"goes", 0.05)
    await ground.pass_s(0.05)
    assert await ground.store.upstreams() == {"b": b"stays"}
    await ground.store.report_upstreams("a", b"is back", 60)
    assert await ground.store.upstreams() == {"a": b"is back", "b": b"stays"}


async def test_the_first_claims_are_remembered_with_their_workers(
    ground: Ground, store: Store
) -> None:
    """PROTOCOL 2.7"""
    lease = await ground.run()
    rid, epochs = lease.response_id, [lease.epoch]
    for _ in range(9):
        lease = await ground.succeed(lease)
        epochs.append(lease.epoch)
    for viewer in ("s/1", "s/2"):
        await store.attend(rid, viewer)
    await store.leave(rid, "s/2")
    (pulse, nothing) = await store.pulses([rid, NOBODY])
    assert nothing is None
    assert pulse is not None
    assert pulse.claims == list(zip(epochs, ["a", *"b" * 7], strict=False))
    assert (pulse.output_tokens, pulse.viewers) == (0, 1)
