"""Many tabs, one connection; who holds it may go (PROTOCOL 15.5)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from playwright.async_api import expect

from tests.browser.conftest import stored
from tests.browser.test_devices import HIDE
from tests.waiting import wait_until

if TYPE_CHECKING:
    from playwright.async_api import BrowserContext, Request, Route

    from tests.browser.conftest import Person

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

TABS = 8
"""More than the six connections that HTTP/1.1 gives a browser."""


def words(count: int) -> str:
    return " ".join(f"word{n}" for n in range(1, count + 1))


class Lines:
    """The event streams that a browser has open, by address."""

    def __init__(self, context: BrowserContext) -> None:
        self.open: list[Request] = []
        context.on("request", self._begun)
        context.on("requestfinished", self._over)
        context.on("requestfailed", self._over)

    def _begun(self, request: Request) -> None:
        if "/events" in request.url:
            self.open.append(request)

    def _over(self, request: Request) -> None:
        if request in self.open:
            self.open.remove(request)


async def test_eight_tabs_over_http_1_each_ask_read_and_stop(person: Person) -> None:
    lines = Lines(person.context)
    tabs = [await person.tab() for _ in range(TABS)]
    for n, tab in enumerate(tabs):
        await tab.ask(f"say:{4000 + n} every:250")
    # All of them grow side by side, each on the screen of its own tab.
    for tab in tabs:
        await expect(tab.answer.words).to_contain_text("word5", timeout=60_000)
    await wait_until(lambda: len(lines.open) == 1, "one connection for all", timeout=30)
    texts = [await tab.answer.text() for tab in tabs]
    for tab, text in zip(tabs, texts, strict=True):
        said = text.split()
        await expect(tab.answer.words).to_contain_text(f"word{len(said) + 2}", timeout=60_000)
    for tab in tabs:
        await tab.stop.click()
        await tab.answer.until_status("cancelled", timeout_s=60)
        text = await tab.answer.text()
        assert text == words(len(text.split())), "each word once and in order"
        assert (await stored(tab, await tab.answer.id()))["text"] == text
    await wait_until(lambda: len(lines.open) == 1, "one connection for what comes", timeout=30)


async def test_the_tab_that_holds_the_line_closes_and_nobody_notices(person: Person) -> None:
    await person.page.goto("/")
    answer = await person.ask("say:150 every:40")
    await answer.until_words(5)
    await person.page.evaluate(
        """() => {
            window.said = [];
            const answer = document.querySelector('#transcript > .answer:last-child');
            const state = answer.querySelector('[data-part=state]');
            new MutationObserver(() => window.said.push(state.textContent))
                .observe(state, { childList: true, characterData: true, subtree: true });
        }"""
    )
    for count in (30, 60):
        leader = await person.tab()  # the tab that was opened last is looked at
        await leader.until_alive()
        await answer.until_words(count)
        await leader.page.close()
        before = len((await answer.text()).split())
        await expect(answer.words).to_contain_text(f"word{before + 3}", timeout=3_000)
    await answer.until_status("completed")
    assert await answer.text() == words(150)
    said = set(await person.page.evaluate("window.said"))
    assert not any("connection" in sentence.lower() for sentence in said), said


def later(shared: str) -> str:
    """shared.js of a later version: other words, and an old one with another meaning."""
    for now, then in (
        ("export const VERSION = 1;", "export const VERSION = 2;"),
        ("'want'", "'wish'"),
        ("postMessage({ kind: 'leads' })", "postMessage({ kind: 'said' })"),
        (
            "if (kind === 'said')",
            "if (kind === 'said' && !message.items) this.#wantAll(); else if (kind === 'said')",
        ),
    ):
        assert now in shared
        shared = shared.replace(now, then)
    return shared


async def test_tabs_of_before_and_after_a_deploy_each_go_on(person: Person) -> None:
    """PROTOCOL 15.6"""

    async def deployed(route: Route) -> None:
        reply = await route.fetch()
        await route.fulfill(response=reply, body=later(await reply.text()))

    await person.page.goto("/")
    answer = await person.ask("say:300 every:40")
    old = [answer, (await person.tab(person.page.url)).answer]
    await old[1].until_words(5)
    await person.context.route("**/chat/shared.js", deployed)
    fresh = [(await person.tab(person.page.url)).answer for _ in range(2)]
    await fresh[1].until_words(50)
    await old[1].page.bring_to_front()
    await old[1].page.close()
    await fresh[1].page.close()
    for one in (old[0], fresh[0]):
        await one.until_status("completed", timeout_s=60)
        assert await one.text() == words(300)


async def test_a_tab_that_is_left_says_so_for_itself_alone(person: Person) -> None:
    """Law 8: whichever tab held the line, an answer lives while a page of the site is open."""
    await person.page.goto("/")
    answer = await person.ask("say:3300 every:30")
    rid = await answer.id()
    other = await person.tab()
    await other.until_alive()
    await person.page.close()  # it asked; the other one holds the line and has never shown it
    await asyncio.sleep(6)  # twice the patience after a leave
    assert (await stored(other, rid))["status"] == "in_progress"
    await other.page.close()  # the last one

    async def over() -> bool | None:
        body = await stored(other, rid)
        return (body["status"], body["reason"]) == ("cancelled", "abandoned") or None

    assert await wait_until(over, "the answer to be given up", timeout=30)


async def test_a_hidden_page_is_no_leave(person: Person) -> None:
    """Law 8"""
    await person.page.goto("/")
    answer = await person.ask("say:3400 every:30")
    await answer.until_words(3)
    await person.page.evaluate(HIDE)
    await person.page.evaluate("look(true)")
    await asyncio.sleep(6)  # twice the patience after a leave
    assert (await stored(person, await answer.id()))["status"] == "in_progress"
    await person.page.evaluate("look(false)")
    await answer.until_words(150)


async def test_a_network_that_is_switched_is_a_pause_of_a_moment(person: Person) -> None:
    await person.page.goto("/")
    answer = await person.ask("say:300 every:40")
    await answer.until_words(5)
    for _ in range(3):
        await person.context.set_offline(True)
        await person.context.set_offline(False)
        said = len((await answer.text()).split())
        await expect(answer.words).to_contain_text(f"word{said + 30} ", timeout=6_000)
    await answer.until_status("completed")
    assert await answer.text() == words(300)
