"""The stream doctor of the admin, in a real browser over a real way."""

from __future__ import annotations

import pytest
from playwright.async_api import expect

from tests.browser.conftest import DESK, PHONE, NewPerson

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]


async def test_the_page_examines_its_own_way_and_says_what_it_found(new_person: NewPerson) -> None:
    person = await new_person()
    page = person.page
    await person.become_superuser()
    await page.goto("/admin/")
    await page.get_by_role("link", name="Stream doctor").click()
    await page.get_by_label("A silence of one heartbeat,").fill("1")
    await page.get_by_role("button", name="Examine").click()
    # Over HTTP/1.1 on a bare port there is nothing to mend, and one thing to know.
    told = page.locator("#doctor output")
    await expect(told).to_contain_text("Streams pass as they are sent", timeout=60_000)
    await expect(told).to_contain_text("HTTP/1.1")
    found = page.locator("#findings .finding")
    await expect(found).to_have_count(1)
    await expect(found).to_contain_text("of 7 streams 1 waited")
    await person.shot("admin-doctor")
    await page.emulate_media(color_scheme="dark")
    await person.shot("admin-doctor-dark")
    for size in (DESK, PHONE):
        await page.set_viewport_size(size)  # type: ignore[arg-type]  # a TypedDict
        wider = await page.evaluate("document.documentElement.scrollWidth - innerWidth")
        assert wider <= 0, size
    ticket = await page.locator("pre").inner_text()
    assert "--ticket probe." in ticket
