"""The models page of the admin, as an operator sees it on a desk and on a phone."""

from __future__ import annotations

import pytest
from playwright.async_api import expect

from tests.browser.conftest import DESK, PHONE, NewPerson

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]


async def test_the_models_page_tells_of_a_failure_and_fits_a_phone(new_person: NewPerson) -> None:
    person = await new_person()
    page = person.page
    await person.become_superuser()
    await page.goto("/")
    await (await person.ask("fail:401")).until_status("failed")
    await page.goto("/admin/")
    await page.get_by_role("link", name="Language models").click()
    await expect(page.get_by_role("heading", name="Language models")).to_be_visible()
    row = page.locator(".language-models tbody tr").first
    await expect(row).to_contain_text("closed")
    await expect(row).to_contain_text("authentication")
    await expect(row).not_to_contain_text("Scripted failure 401")
    await person.shot("admin-models")
    await page.get_by_role("button", name="Show what providers said").click()
    await expect(row).to_contain_text("Scripted failure 401")
    for size in (DESK, PHONE):
        await page.set_viewport_size(size)  # type: ignore[arg-type]  # a TypedDict
        wider = await page.evaluate("document.documentElement.scrollWidth - innerWidth")
        assert wider <= 0, size
    await expect(row.locator("td").first).to_be_in_viewport()
    await row.get_by_role("link", name="failure").click()
    await expect(page.locator("#result_list tbody tr").first).to_contain_text("authentication")
