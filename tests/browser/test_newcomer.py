"""Somebody who has never been here: first page, first key, a lost password."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import httpx
import pytest
import pytest_asyncio
from playwright.async_api import expect

from tests.browser.conftest import DESK, OUTPUT, PHONE
from tests.site import Site
from tests.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from playwright.async_api import Browser, BrowserContext, Page

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

PATIENCE_MS = 30_000
FIRST, SECOND = "a long and odd phrase 1", "a long and odd phrase 2"


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def mail(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("mail")


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def open_site(tmp_path_factory: pytest.TempPathFactory, mail: Path) -> AsyncIterator[Site]:
    env = {"SIGN_UP": "1", "EMAIL_URL": f"filemail:///{mail}"}  # the path loses a slash
    async with Site(tmp_path_factory.mktemp("open"), workers=1, env=env) as site:
        yield site


async def shot(page: Page, name: str) -> None:
    OUTPUT.mkdir(parents=True, exist_ok=True)
    for size in (PHONE, DESK):
        await page.set_viewport_size(size)  # type: ignore[arg-type]  # a TypedDict
        await page.screenshot(path=OUTPUT / f"newcomer-{name}-{size['width']}.png", full_page=True)


async def browser_of(browser: Browser, site: Site, scheme: str = "light") -> BrowserContext:
    context = await browser.new_context(
        base_url=site.urls[0],
        viewport=DESK,  # type: ignore[arg-type]
        color_scheme=scheme,  # type: ignore[arg-type]
    )
    context.set_default_timeout(PATIENCE_MS)
    return context


async def sign_in(page: Page, name: str, password: str) -> None:
    await page.goto("/account/login/")
    await page.get_by_label("Username").fill(name)
    await page.get_by_label("Password").fill(password)
    await page.get_by_role("button", name="Sign in").click()


async def test_a_newcomers_first_day(
    chromium_browser: Browser, open_site: Site, mail: Path
) -> None:
    here = await browser_of(chromium_browser, open_site)
    page = await here.new_page()
    await page.goto("/")
    await page.get_by_role("link", name="Make an account").click()
    await page.get_by_label("Username").fill("nora")
    await page.get_by_label("Email").fill("nora@example.org")
    await page.get_by_label("Password", exact=True).fill("password")
    await page.get_by_role("button", name="Make the account").click()
    await expect(page.get_by_role("alert").first).to_contain_text("too common")
    await shot(page, "sign-up-refused")
    await page.get_by_label("Password", exact=True).fill(FIRST)
    await page.get_by_role("button", name="Make the account").click()
    await expect(page.get_by_role("heading", level=1)).to_have_text("What would you like to know?")
    await shot(page, "home")

    # An example is put into the box, not sent.
    await page.locator(".example").first.click()
    await expect(page.get_by_role("textbox", name="Message")).to_have_value(re.compile("rainbow"))

    # A key, used as the README has it.
    await page.goto("/account/")
    await page.get_by_label("What is it for?").fill("backup script")
    await page.get_by_role("button", name="Make a key").click()
    key = await page.locator("#fresh-key").inner_text()
    await shot(page, "account-with-key")
    api = httpx.AsyncClient(base_url=open_site.urls[0], headers={"Authorization": f"Bearer {key}"})
    async with api:
        asked = {"model": "scripted", "input": "say:5"}
        reply = await api.post("/api/responses", json=asked)
        assert reply.status_code == 202, reply.text
        events = await api.get(reply.json()["events_url"], timeout=30)
        assert "word5" in events.text
        assert "event: ended" in events.text
        await page.goto("/account/")
        await page.get_by_text("Revoke", exact=True).click()
        await page.get_by_role("button", name="Revoke for good").click()
        await expect(page.get_by_role("status")).to_contain_text("The key is revoked.")
        assert (await api.post("/api/responses", json=asked)).status_code == 401

    # A second browser, signed out from the first.
    there = await browser_of(chromium_browser, open_site, "dark")
    other = await there.new_page()
    await sign_in(other, "nora", FIRST)
    await expect(other.get_by_role("textbox", name="Message")).to_be_visible()
    await page.reload()
    await shot(page, "two-places")
    await page.get_by_role("button", name="Sign out: Chrome").click()
    await expect(page.get_by_role("status")).to_have_text("That place is signed out.")
    await other.goto("/")
    await expect(other.get_by_role("heading", level=1)).to_have_text("Sign in")

    # The password is lost.
    await other.get_by_role("link", name=re.compile("orgot")).click()
    await other.get_by_label("Email").fill("nora@example.org")
    await shot(other, "forgotten")
    await other.get_by_role("button", name="Send the link").click()
    await expect(other.get_by_role("heading", level=1)).to_have_text("Look into your mail")
    await shot(other, "mail-sent")

    async def link() -> str | None:
        text = "".join(file.read_text() for file in sorted(mail.iterdir()))  # noqa: ASYNC240 - a small one
        found = re.findall(r"https?://\S+(/account/forgotten/\S+)", text)
        return found[-1] if found else None

    await other.goto(await wait_until(link, "the mail with the link", timeout=30))
    await other.get_by_label("New Password", exact=True).fill(SECOND)
    await other.get_by_label("New Password (again)").fill(SECOND)
    await shot(other, "new-password")
    await other.get_by_role("button", name="Save the new password").click()
    await expect(other.get_by_role("heading", level=1)).to_have_text("Your password is new")
    await page.reload()
    await expect(page.get_by_role("heading", level=1)).to_have_text("Sign in")
    await sign_in(page, "nora", SECOND)
    await expect(page.get_by_role("textbox", name="Message")).to_be_visible()
    await here.close()
    await there.close()


async def test_who_guesses_reads_why_nothing_works_any_more(
    chromium_browser: Browser, open_site: Site
) -> None:
    context = await browser_of(chromium_browser, open_site, "dark")
    page = await context.new_page()
    for attempt in range(6):
        await sign_in(page, "somebody", "a guess")
        said = "not correct" if attempt < 5 else "Too many failed attempts to sign in"
        await expect(page.get_by_role("alert")).to_contain_text(said)
        if attempt in (0, 5):
            await shot(page, f"wrong-password-{attempt + 1}")
    await context.close()
