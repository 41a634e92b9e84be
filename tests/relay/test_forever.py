"""Loops that nobody else restarts."""

from __future__ import annotations

from relay.hub.forever import PAUSE_MAX_S, WELL_S, forever


class Ailing:
    """A loop that fails after running for as long as it is told, at last returns; and its clock."""

    def __init__(self, *runs_s: float) -> None:
        self._runs_s = list(runs_s)
        self.now_s = 0.0
        self.pauses_s: list[float] = []

    def clock(self) -> float:
        return self.now_s

    async def sleep(self, pause_s: float) -> None:
        self.pauses_s.append(pause_s)

    async def loop(self) -> None:
        if self._runs_s:
            self.now_s += self._runs_s.pop(0)
            raise RuntimeError("as it is told")


async def pauses_after(*runs_s: float) -> list[float]:
    ailing = Ailing(*runs_s)
    await forever(ailing.loop, "ailing", clock=ailing.clock, sleep=ailing.sleep)
    return ailing.pauses_s


async def test_who_fails_again_and_again_waits_longer_each_time_up_to_a_limit() -> None:
    pauses_s = await pauses_after(*[0.0] * 12)
    assert pauses_s[0] <= 0.1
    assert PAUSE_MAX_S / 2 <= pauses_s[-1] <= PAUSE_MAX_S


async def test_a_long_good_time_makes_up_for_all_failures_before() -> None:
    pauses_s = await pauses_after(*[0.0] * 12, WELL_S, 0.0)
    assert pauses_s[11] >= PAUSE_MAX_S / 2
    assert pauses_s[12] <= 0.1
    assert pauses_s[13] <= 0.2, "and it grows from there"


async def test_a_loop_that_returns_is_over() -> None:
    assert await pauses_after() == []
