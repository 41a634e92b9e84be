"""Pages that sleep and wake, in a browser whose tabs do (tests/chromium.py)."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest
from playwright.async_api import Error, expect

from tests.bench import waking
from tests.browser.conftest import OUTPUT, stored
from tests.chromium import freeze
from tests.waiting import wait_until

if TYPE_CHECKING:
    from tests.browser.conftest import Person

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

RUNS = 3
BOUND_MS = 5_000
"""Beside other work; `make bench-page` holds what is promised, 1,000."""
CLOCK = "() => { window.beats = 0; setInterval(() => (window.beats += 1), 20); }"


def words(count: int) -> str:
    return " ".join(f"word{n}" for n in range(1, count + 1))


async def further(person: Person, rid: str, by: int = 20) -> None:
    """Wait until the answer has gone on, whoever looks."""
    begun = (await stored(person, rid))["seq"]

    async def look() -> bool | None:
        return (await stored(person, rid))["seq"] > begun + by or None

    assert await wait_until(look, "the answer to go on meanwhile", timeout=30)


async def test_a_page_that_wakes_up_is_attached_again_within_a_second(sleeper: Person) -> None:
    await sleeper.page.add_init_script(waking.LISTEN)
    await sleeper.page.reload()
    answer = await sleeper.ask("say:6000 every:20")
    await answer.until_words(5)
    rid = await answer.id()
    seen = await waking.measure(sleeper.page, RUNS, asleep=lambda: further(sleeper, rid))
    print("attached again after, in ms:", json.dumps(seen))
    OUTPUT.mkdir(parents=True, exist_ok=True)
    (OUTPUT / "waking.json").write_text(json.dumps(seen, indent=2) + "\n")
    assert all(len(times) == RUNS for times in seen.values())
    assert max(max(times) for times in seen.values()) < BOUND_MS
    text = await answer.text()
    assert text == words(len(text.split())), "each word once and in order"
    await sleeper.stop.click()
    await answer.until_status("cancelled")


async def test_a_page_that_thaws_in_mid_answer_goes_on_at_once(sleeper: Person) -> None:
    answer = await sleeper.ask("say:900 every:40")
    await answer.until_words(5)
    rid = await answer.id()
    other = await sleeper.tab("/account/")
    for _ in range(2):
        await freeze(sleeper.page, behind=other.page)
        await further(sleeper, rid, by=30)
        behind = len((await stored(sleeper, rid))["text"].split())
        await sleeper.page.bring_to_front()
        await expect(answer.words).to_contain_text(f"word{behind} ", timeout=5_000)
    text = await answer.text()
    assert text == words(len(text.split())), "each word once and in order"
    await sleeper.stop.click()
    await answer.until_status("cancelled")


async def test_a_page_that_slept_through_the_end_is_whole_as_soon_as_it_wakes(
    sleeper: Person,
) -> None:
    answer = await sleeper.ask("say:100 every:40")
    await answer.until_words(10)
    rid = await answer.id()
    other = await sleeper.tab("/account/")
    await sleeper.page.evaluate(CLOCK)
    await freeze(sleeper.page, behind=other.page)

    async def ended() -> bool | None:
        return (await stored(sleeper, rid))["status"] == "completed" or None

    assert await wait_until(ended, "the answer to end while nobody looks", timeout=20)
    await sleeper.page.bring_to_front()
    await answer.until_status("completed", timeout_s=5)
    assert await answer.text() == words(100)
    assert await sleeper.page.evaluate("window.beats") < 100, "it was never asleep"


async def test_the_tab_that_holds_the_line_freezes_and_another_takes_over(sleeper: Person) -> None:
    """PROTOCOL 15.5"""
    answer = await sleeper.ask("say:500 every:40")
    await answer.until_words(5)
    leader = await sleeper.tab(sleeper.page.url)  # the tab that was looked at last
    await leader.answer.until_words(15)
    await freeze(leader.page, behind=await sleeper.context.new_page())
    before = len((await answer.text()).split())
    await expect(answer.words).to_contain_text(f"word{before + 40}", timeout=20_000)
    await leader.page.bring_to_front()
    await sleeper.page.bring_to_front()
    for one in (answer, leader.answer):
        await one.until_status("completed", timeout_s=60)
        assert await one.text() == words(500)


async def test_of_eight_tabs_the_one_that_holds_the_line_crashes(sleeper: Person) -> None:
    """PROTOCOL 15.5: its process is gone without a word, and with it the lock."""
    answer = await sleeper.ask("say:3600 every:30")
    await answer.until_words(5)
    others = [await sleeper.tab(sleeper.page.url) for _ in range(6)]
    leader = await sleeper.tab("/")
    await leader.until_alive()
    crashed = asyncio.Event()
    leader.page.on("crash", lambda _: crashed.set())
    devtools = await sleeper.context.new_cdp_session(leader.page)
    with suppress(TimeoutError, Error):  # nobody is left to answer
        async with asyncio.timeout(2):
            await devtools.send("Page.crash")
    assert crashed.is_set()
    before = len((await answer.text()).split())
    await expect(answer.words).to_contain_text(f"word{before + 60} ", timeout=30_000)
    await sleeper.page.bring_to_front()
    await sleeper.stop.click()
    for one in (answer, *(other.answer for other in others)):
        await one.until_status("cancelled", timeout_s=30)
        text = await one.text()
        assert text == words(len(text.split())), "each word once and in order"
