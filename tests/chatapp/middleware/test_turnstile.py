"""One new question per turn of the event loop."""

from __future__ import annotations

import asyncio
import itertools

from chatapp.middleware.turnstile import PATIENCE_S, Turnstile


async def entered(turnstile: Turnstile, name: str, log: list[str]) -> None:
    await turnstile.enter()
    log.append(name)


async def turns(log: list[str], count: int) -> None:
    """Marks every turn of the loop."""
    for _ in range(count):
        log.append("|")
        await asyncio.sleep(0)


async def test_one_is_let_in_per_turn_in_the_order_of_arrival() -> None:
    turnstile, log = Turnstile(), list[str]()
    await asyncio.gather(*(entered(turnstile, name, log) for name in "abcd"), turns(log, 8))
    assert [name for name in log if name != "|"] == list("abcd")
    assert not any(a != "|" and b != "|" for a, b in itertools.pairwise(log)), log


async def test_who_gave_up_takes_nobody_s_turn() -> None:
    turnstile, log = Turnstile(), list[str]()
    tasks = [asyncio.create_task(entered(turnstile, name, log)) for name in "abcd"]
    await asyncio.sleep(0)
    tasks[1].cancel()
    tasks[3].cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert log == ["a", "c"]
    await asyncio.wait_for(entered(turnstile, "e", log), 5)
    assert log == ["a", "c", "e"]


async def let_in_after(turnstile: Turnstile, count: int) -> list[str]:
    """Who has entered after so many turns."""
    log: list[str] = []
    tasks = [asyncio.create_task(entered(turnstile, name, log)) for name in "abcdefgh"]
    for _ in range(count):
        await asyncio.sleep(0)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return log


async def test_nobody_is_let_in_after_a_long_turn_but_one_in_a_while() -> None:
    now_s = itertools.count(step=PATIENCE_S / 5)
    assert len(await let_in_after(Turnstile(lambda: next(now_s)), 14)) == 2
    short_s = itertools.count(step=1e-6)
    assert len(await let_in_after(Turnstile(lambda: next(short_s)), 14)) == 8
