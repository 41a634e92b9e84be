"""Who has signed out has left nothing behind for whoever presses Back (in a real browser)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import pytest
from playwright.async_api import expect

if TYPE_CHECKING:
    from playwright.async_api import Page

    from tests.browser.conftest import NewPerson, Person

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]


async def back_to_the_entrance(page: Page) -> None:
    await page.go_back(wait_until="commit")
    await expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    await expect(page.get_by_text("a secret")).to_have_count(0)


async def test_back_shows_nothing_after_signing_out(sleeper: Person) -> None:
    page = sleeper.page
    await (await sleeper.ask("a secret")).until_status("completed")
    await page.get_by_role("button", name="Sign out").click()
    await expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    await back_to_the_entrance(page)


async def test_back_shows_nothing_after_a_session_that_has_ended(
    sleeper: Person,
) -> None:
    page = sleeper.page
    await (await sleeper.ask("a secret")).until_status("completed")
    await page.goto("about:blank")
    await sleeper.context.clear_cookies()
    await back_to_the_entrance(page)


async def test_back_shows_nothing_to_who_has_signed_in_since(
    sleeper: Person, new_person: NewPerson
) -> None:
    page = sleeper.page
    await (await sleeper.ask("a secret")).until_status("completed")
    await page.goto("about:blank")
    other = await new_person()
    await sleeper.context.add_cookies(await other.context.cookies())  # type: ignore[arg-type]
    await page.go_back(wait_until="commit")
    await expect(page.get_by_text("a secret")).to_have_count(0)


async def test_back_without_a_network_shows_what_was_there(sleeper: Person) -> None:
    page = sleeper.page
    await (await sleeper.ask("a secret")).until_status("completed")
    await page.goto("about:blank")
    await sleeper.context.set_offline(True)
    await page.go_back(wait_until="commit")
    await expect(sleeper.answer.words).to_have_text("You said: a secret")
    await sleeper.context.set_offline(False)


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_without_scripts_what_was_written_comes_back_to_be_copied(
    new_person: NewPerson, scheme: Literal["light", "dark"]
) -> None:
    person = await new_person(java_script_enabled=False, color_scheme=scheme)
    page = person.page
    await page.goto("/")
    await person.box.fill("A long message\nof two lines")
    await person.context.clear_cookies(name="sessionid")
    await person.send.click()
    await expect(page.get_by_role("heading", name="You are signed out")).to_be_visible()
    written = page.get_by_role("textbox", name="What you wrote")
    await expect(written).to_have_value("A long message\nof two lines")
    assert "long" not in page.url
    await person.shot(f"kept-{scheme}")
