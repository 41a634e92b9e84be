"""Codes from a phone, under the policy of the site, in a real browser; pictures for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from playwright.async_api import expect

from tests.browser.conftest import PASSWORD
from tests.chatapp.test_second_step import code_of

if TYPE_CHECKING:
    from tests.browser.conftest import NewPerson

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

PATIENCE_MS = 30_000


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_codes_are_set_up_and_asked_for(new_person: NewPerson, scheme: str) -> None:
    person = await new_person(color_scheme=scheme)
    page = person.page
    page.set_default_timeout(PATIENCE_MS)
    await page.goto("/account/")
    await page.get_by_role("link", name="Set up codes").click()
    await page.get_by_label("Password").fill(PASSWORD)
    await person.shot(f"second-step-{scheme}-again")
    await page.get_by_role("button", name="Go on").click()
    picture = page.locator(".scan svg")
    await expect(picture).to_be_visible(timeout=PATIENCE_MS)
    secret = await page.locator(".secret").inner_text()
    await page.get_by_label("Authenticator code").fill("000000")
    await page.get_by_role("button", name="Ask for codes from now on").click()
    await expect(page.get_by_text("Incorrect code")).to_be_visible(timeout=PATIENCE_MS)
    await person.shot(f"second-step-{scheme}-setup")
    assert await page.locator(".secret").inner_text() == secret, "the phone has it by now"
    await page.get_by_label("Authenticator code").fill(code_of(secret))
    await page.get_by_role("button", name="Ask for codes from now on").click()
    codes = page.locator(".secrets li")
    await expect(codes).to_have_count(10, timeout=PATIENCE_MS)
    await person.shot(f"second-step-{scheme}-recovery")
    recovery = await codes.first.inner_text()
    await page.get_by_role("link", name="Back to your account").click()
    await expect(page.get_by_text("10 recovery codes are left.")).to_be_visible()
    await person.shot(f"second-step-{scheme}-account")

    stranger = await new_person(signed_in=False, color_scheme=scheme)
    page = stranger.page
    page.set_default_timeout(PATIENCE_MS)
    await page.goto("/account/login/")
    await page.get_by_label("Username").fill(person.name)
    await page.get_by_label("Password").fill(PASSWORD)
    await page.get_by_role("button", name="Sign in").click()
    await expect(page.get_by_role("heading")).to_have_text("One more step", timeout=PATIENCE_MS)
    await stranger.shot(f"second-step-{scheme}-code")
    await page.get_by_label("Code").fill(recovery)
    await page.get_by_role("button", name="Sign in").click()
    await expect(stranger.box).to_be_visible(timeout=PATIENCE_MS)
