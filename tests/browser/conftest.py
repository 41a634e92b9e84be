"""A real Chromium on the real site: web process, worker, Valkey, and a provider that obeys.

One site serves all tests of this folder; each test is a person of its own, in a browser profile of
its own. What the browser complains about, above all its policy, fails the test.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

import pytest
import pytest_asyncio
from playwright.async_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Locator,
    Page,
    async_playwright,
    expect,
)

from chatapp.templatetags.words import table
from tests.chromium import FLAGS, real_browser
from tests.site import Site
from tests.waiting import wait_until

OUTPUT = Path(__file__).resolve().parent.parent / "output" / "browser"
PASSWORD = "a phrase for tests"
PEOPLE = 300
"""More than there are tests, which may all run in one process."""
DESK = {"width": 1280, "height": 860}
PHONE = {"width": 390, "height": 844}
WAYS = [
    {"viewport": DESK, "color_scheme": "light"},
    {"viewport": PHONE, "color_scheme": "dark"},
]
"""Both widths and both looks, for whoever checks something in all of them (`visitor`)."""
LIMITS = {
    # Ten thousand words are cut short, and a person who left is given up soon.
    "RELAY_MAX_LOG_BYTES": "80000",
    "RELAY_LEAVE_AFTER_S": "3",
}

expect.set_options(timeout=10_000)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def site(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Site]:
    async with Site(tmp_path_factory.mktemp("site"), workers=1, env=LIMITS) as site:
        yield site


@pytest.fixture(scope="session")
def accounts(site: Site) -> Iterator[Account]:
    """Made all at once: a process per user would take longer than the tests."""
    return iter(
        [
            Account(*line.split())
            for line in site.manage("shell", *_make_users()).strip().split("\n")
        ]
    )


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def chromium_browser(light_chromium: str) -> AsyncIterator[Browser]:
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=light_chromium,
            args=FLAGS,
        )
        yield browser
        await browser.close()


@dataclass(frozen=True)
class Account:
    name: str
    session: str
    """The session's key: what the cookie holds."""


@dataclass
class Answer:
    """The last answer of a page, as a person sees it."""

    page: Page

    @property
    def item(self) -> Locator:
        return self.page.locator("#transcript > .answer").last

    @property
    def words(self) -> Locator:
        return self.item.locator("[data-part=text]")

    @property
    def state(self) -> Locator:
        return self.item.locator("[data-part=state]")

    @property
    def end(self) -> Locator:
        return self.item.locator("[data-part=end]")

    async def id(self) -> str:
        return await self.item.get_attribute("data-answer") or ""

    async def text(self) -> str:
        return await self.words.text_content() or ""

    async def until_words(self, count: int) -> str:
        """Wait until this many words are to be seen; the text then."""
        await expect(self.words).to_contain_text(f"word{count}")
        return await self.text()

    async def until_status(self, status: str, timeout_s: float = 20) -> None:
        await expect(self.item).to_have_attribute("data-status", status, timeout=timeout_s * 1000)


@dataclass
class Person:
    """Somebody with an account of their own, and a browser."""

    name: str
    site: Site
    context: BrowserContext
    page: Page
    complaints: list[str] = field(default_factory=list)
    devices: list[Person] = field(default_factory=list)
    """Other browsers of the same person."""

    async def become_superuser(self) -> None:
        code = (
            "from chatapp.models import User; "
            f"User.objects.filter(username={self.name!r}).update(is_staff=True, is_superuser=True)"
        )
        await asyncio.to_thread(self.site.manage, "shell", "--no-imports", "-c", code)

    async def device(self, **options: Any) -> Person:
        """Another browser, signed in as the same person, with nothing open yet."""
        assert self.context.browser is not None
        context = await self.context.browser.new_context(base_url=self.site.urls[0], **options)
        await context.add_cookies(await self.context.cookies())  # type: ignore[arg-type]
        other = Person(self.name, self.site, context, await context.new_page(), self.complaints)
        context.on("page", other.watch)
        other.watch(other.page)
        self.devices.append(other)
        return other

    async def tab(self, url: str = "/") -> Person:
        """Another tab of this browser."""
        page = await self.context.new_page()
        await page.goto(urljoin(self.site.urls[0], url))
        return Person(self.name, self.site, self.context, page, self.complaints)

    @property
    def answer(self) -> Answer:
        return Answer(self.page)

    @property
    def box(self) -> Locator:
        return self.page.get_by_role("textbox", name="Message")

    @property
    def send(self) -> Locator:
        return self.page.get_by_role("button", name="Send", exact=True)

    @property
    def stop(self) -> Locator:
        return self.page.get_by_role("button", name="Stop", exact=True)

    @property
    def trouble(self) -> Locator:
        return self.page.locator("#trouble")

    def watch(self, page: Page) -> None:
        page.on("pageerror", lambda error: self.complaints.append(f"{page.url}: {error}"))
        page.on("console", self._console)

    def _console(self, message: ConsoleMessage) -> None:
        # A request that was refused or lost is what some tests are about.
        lost = "Failed to load resource" in message.text or "net::ERR" in message.text
        if message.type == "error" and not lost:
            self.complaints.append(message.text)

    async def until_alive(self) -> None:
        """The page's scripts have taken over."""
        await expect(self.page.locator("#composer")).to_have_attribute("data-alive", "")

    async def ask(self, text: str) -> Answer:
        """From the page that is open; returns when the server has it."""
        await self.until_alive()
        await self.box.fill(text)
        await self.box.press("Enter")
        question = self.page.locator("#transcript > .question [data-part=question]").last
        await expect(question).to_have_text(text)
        await expect(self.answer.item).to_be_visible()
        return self.answer

    async def shot(self, name: str, page: Page | None = None) -> None:
        """Pictures for people, at both widths; the view is put back."""
        page = page or self.page
        OUTPUT.mkdir(parents=True, exist_ok=True)
        before = page.viewport_size
        for size in (DESK, PHONE):
            await page.set_viewport_size(size)  # type: ignore[arg-type]
            await page.screenshot(path=OUTPUT / f"{name}-{size['width']}.png")
        if before:
            await page.set_viewport_size(before)

    async def provider_saw(self) -> list[dict[str, Any]]:
        return await self.site.stats()


NewPerson = Callable[..., Awaitable[Person]]


@pytest_asyncio.fixture(loop_scope="session")
async def new_person(
    site: Site, chromium_browser: Browser, accounts: Iterator[Account]
) -> AsyncIterator[NewPerson]:
    people: list[Person] = []

    async def make(*, signed_in: bool = True, **options: Any) -> Person:
        account = next(accounts)
        context = await chromium_browser.new_context(
            base_url=site.urls[0], viewport=options.pop("viewport", DESK), **options
        )
        person = Person(account.name, site, context, await context.new_page())
        context.on("page", person.watch)
        person.watch(person.page)
        if signed_in:
            cookie = {"name": "sessionid", "value": account.session, "url": site.urls[0]}
            await context.add_cookies([cookie])  # type: ignore[list-item]  # a TypedDict
        people.append(person)
        return person

    yield make
    for one in [*people, *(device for person in people for device in person.devices)]:
        await one.context.close()
    complaints = [complaint for person in people for complaint in person.complaints]
    assert complaints == [], "the browser complained"


@pytest_asyncio.fixture(loop_scope="session")
async def person(new_person: NewPerson) -> Person:
    return await new_person()


@pytest_asyncio.fixture(loop_scope="session", params=WAYS, ids=["wide-light", "narrow-dark"])
async def visitor(request: pytest.FixtureRequest, new_person: NewPerson) -> Person:
    return await new_person(bypass_csp=True, **request.param)


@pytest_asyncio.fixture(loop_scope="session")
async def sleeper(site: Site, chromium: str, accounts: Iterator[Account]) -> AsyncIterator[Person]:
    """Somebody at the home page, in a browser whose tabs hide and sleep (tests/chromium.py)."""
    account = next(accounts)
    async with real_browser(chromium) as context:
        cookie = {"name": "sessionid", "value": account.session, "url": site.urls[0]}
        await context.add_cookies([cookie])  # type: ignore[list-item]  # a TypedDict
        person = Person(account.name, site, context, await context.new_page())
        context.on("page", person.watch)
        person.watch(person.page)
        await person.page.goto(site.urls[0])
        yield person
        assert person.complaints == [], "the browser complained"


def _make_users() -> list[str]:
    """Arguments of `manage.py shell` that make people with PASSWORD and a session each."""
    code = f"""
from django.conf import settings
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
from django.contrib.auth.hashers import make_password
from django.contrib.sessions.backends.db import SessionStore
from chatapp.models import User
password = make_password({PASSWORD!r})
for n in range({PEOPLE}):
    user = User.objects.create(username=f"person{{n}}", password=password)
    session = SessionStore()
    session[SESSION_KEY] = str(user.pk)
    session[BACKEND_SESSION_KEY] = settings.AUTHENTICATION_BACKENDS[0]
    session[HASH_SESSION_KEY] = user.get_session_auth_hash()
    session.create()
    print(user.username, session.session_key)
"""
    return ["--no-imports", "-c", code]


def end_words(status: str, reason: str) -> dict[str, str]:
    words: dict[str, str] = table()["ends"][status][reason]
    return words


async def stored(person: Person, response_id: str) -> dict[str, Any]:
    """What the API says of a response to the person's own session."""
    address = urljoin(person.site.urls[0], f"/api/responses/{response_id}")
    reply = await person.context.request.get(address)
    assert reply.ok, await reply.text()
    body: dict[str, Any] = json.loads(await reply.text())
    return body


async def until_upstream(site: Site, said: str, state: str, timeout: float = 5.0) -> dict[str, Any]:
    """Wait until the provider saw the request with this message end like that."""

    async def look() -> dict[str, Any] | None:
        found = [seen for seen in await site.stats() if said in json.dumps(seen)]
        return found[-1] if found and found[-1]["state"] == state else None

    return await wait_until(look, f"the provider's connection to be {state}", timeout=timeout)


__all__ = ["DESK", "OUTPUT", "PASSWORD", "PHONE", "Answer", "NewPerson", "Person"]
