"""Tabs that the browser takes from memory, and tabs of a browser that died (in a real one)."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import httpx
import pytest
from playwright.async_api import FilePayload, expect

from chatapp import services
from chatapp.services.changing import LATE
from tests.browser.conftest import Account, Person
from tests.chromium import driven, process, profile
from tests.discards import discard, look_at
from tests.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from playwright.async_api import BrowserContext, Page

    from tests.site import Site

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

TOKEN = "t" * 32
PASTE = "a line of what was pasted\n" * 100


def words(count: int) -> str:
    return " ".join(f"word{n}" for n in range(1, count + 1))


@asynccontextmanager
async def sitting(address: str, site: Site, account: Account) -> AsyncIterator[Person]:
    """Playwright as this person in that browser; what it complains about fails the test."""
    async with driven(address) as context:
        cookie = {"name": "sessionid", "value": account.session, "url": site.urls[0]}
        await context.add_cookies([cookie])  # type: ignore[list-item]  # a TypedDict
        person = Person(account.name, site, context, context.pages[0])
        context.on("page", person.watch)
        yield person
        assert person.complaints == []


def showing(context: BrowserContext, url: str) -> Page:
    return next(page for page in context.pages if page.url == url)


async def until_further(client: httpx.AsyncClient, rid: str, words: int) -> None:
    """Nobody looks, and the answer goes on."""

    async def far() -> bool:
        body = (await client.get(f"/api/responses/{rid}")).json()
        assert body["status"] == "in_progress", body
        return f"word{words} " in body["text"]

    await wait_until(far, f"word {words} of an answer that nobody looks at", timeout=30)


def phone(site: Site, account: Account) -> httpx.AsyncClient:
    """Another device of this person, without a page."""
    cookies = {"sessionid": account.session, "csrftoken": TOKEN}
    headers = {"X-CSRFToken": TOKEN}
    return httpx.AsyncClient(base_url=site.urls[0], cookies=cookies, headers=headers)


async def whole(person: Person) -> None:
    """Two questions, two answers, the draft with what stands beside it: each once."""
    page = person.page
    await person.until_alive()
    assert await page.evaluate("document.wasDiscarded")
    questions = page.locator("#transcript > .question [data-part=question]")
    await expect(questions).to_have_text(["say:3", "say:400 every:40"])
    await expect(person.box).to_have_value("half a thought")
    await expect(page.locator("#composer [data-part=attached] li")).to_have_count(1)
    await person.answer.until_words(200)
    await person.answer.until_status("completed", timeout_s=60)
    assert await person.answer.text() == words(400)
    await expect(page.locator("#transcript > .answer")).to_have_count(2)
    assert await page.locator(
        "#transcript > .answer [data-part=text]"
    ).first.text_content() == words(3)


async def test_a_discarded_tab_comes_back_with_its_chat_its_draft_and_its_running_answer(
    site: Site, chromium: str, accounts: Iterator[Account]
) -> None:
    """The browser shows the page from its cache, of before the second question."""
    account = next(accounts)
    async with profile() as folder, process(chromium, folder) as address:
        async with sitting(address, site, account) as person:
            await person.page.goto(site.urls[0])
            await (await person.ask("say:3")).until_status("completed")
            url = person.page.url
            other = await person.tab(url)  # who types in a tab keeps it from being discarded
            await other.ask("say:400 every:40")
            await expect(other.answer.words).to_contain_text("word20 ")
            rid = await other.answer.id()
            await other.box.fill("half a thought")
            file = FilePayload(name="notes.txt", mimeType="text/plain", buffer=PASTE.encode())
            await other.page.locator("#composer [data-part=pick]").set_input_files([file])
            await expect(person.page.locator("#composer [data-part=attached] li")).to_have_count(1)
            await other.page.close()
        await discard(address, url)
        async with phone(site, account) as client:
            await until_further(client, rid, 100)
        await look_at(address, url)
        async with sitting(address, site, account) as person:
            person.page = showing(person.context, url)
            await whole(person)


async def test_a_discarded_tab_shows_nothing_to_who_has_signed_out_since(
    site: Site, chromium: str, accounts: Iterator[Account]
) -> None:
    account = next(accounts)
    async with profile() as folder, process(chromium, folder) as address:
        async with sitting(address, site, account) as person:
            await person.page.goto(site.urls[0])
            await (await person.ask("a secret")).until_status("completed")
            url = person.page.url
            other = await person.tab()
            await other.page.get_by_role("button", name="Sign out").click()
            await expect(other.page.get_by_role("heading", name="Sign in")).to_be_visible()
        await discard(address, url)
        await look_at(address, url)
        async with driven(address) as context:
            page = next(page for page in context.pages if page.url.startswith(site.urls[0]))
            await page.bring_to_front()
            await expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
            await expect(page.get_by_text("a secret")).to_have_count(0)


async def test_a_discarded_tab_that_missed_more_than_it_can_be_told_is_whole_all_the_same(
    site: Site, chromium: str, accounts: Iterator[Account]
) -> None:
    """PROTOCOL 15.4: `stale`."""
    account = next(accounts)
    async with profile() as folder, process(chromium, folder) as address:
        async with sitting(address, site, account) as person:
            await person.page.goto(site.urls[0])
            await (await person.ask("say:3")).until_status("completed")
            url = person.page.url
        await discard(address, url)
        async with phone(site, account) as client:
            chat = f"/api/chats/{url.split('/')[-2]}"
            reply = await client.post(f"{chat}/messages", json={"text": "say:4"})
            assert reply.status_code == 202, reply.text
            others = range(services.MOST + 1)
            made = [await client.post("/api/chats", json={"title": f"no. {n}"}) for n in others]
            assert {one.status_code for one in made} == {201}
        await asyncio.sleep(LATE.total_seconds() + 1)  # what is younger is told in any case
        await look_at(address, url)
        async with sitting(address, site, account) as person:
            page = person.page = showing(person.context, url)
            questions = page.locator("#transcript > .question [data-part=question]")
            await expect(questions).to_have_text(["say:3", "say:4"])
            await expect(person.answer.words).to_have_text(words(4))
