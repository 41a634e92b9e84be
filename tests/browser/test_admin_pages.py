"""Every page of ours in the admin, as an operator sees it: light and dark, on a desk and a phone.

Pictures are kept in tests/output/browser; axe finds nothing serious, no page is wider than its
window, and the site's policy is not offended by any of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest
from playwright.async_api import expect

from tests.browser.axe import bad
from tests.browser.conftest import DESK, PHONE

if TYPE_CHECKING:
    from tests.browser.conftest import NewPerson

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

PAGES: Final = {
    "answers": "/admin/chatapp/response/",
    "audit": "/admin/chatapp/auditevent/",
    "dashboard": "/admin/dashboard/?range=hour",
    "live": "/admin/live/",
    "near": "/admin/quotas/",
    "incidents": "/admin/incidents/",
    "chats": "/admin/chatapp/chat/",
}
WAYS: Final[dict[str, dict[str, Any]]] = {
    "light": {"viewport": DESK, "color_scheme": "light"},
    "dark": {"viewport": DESK, "color_scheme": "dark"},
    "phone": {"viewport": PHONE, "color_scheme": "light"},
}


@pytest.mark.timeout(400)  # ten pages, each looked through by axe
@pytest.mark.parametrize("way", WAYS)
async def test_every_page_of_ours_looks_well(new_person: NewPerson, way: str) -> None:
    person = await new_person(bypass_csp=True, **WAYS[way])
    page = person.page
    await person.become_superuser()
    await page.goto("/")
    await (await person.ask("say:60 every:40")).until_status("completed")
    await (await person.ask("fail:401")).until_status("failed")
    pages = dict(PAGES)
    await page.goto(PAGES["answers"])
    links = page.locator("#result_list tbody th a")
    pages["story"] = await links.nth(1).get_attribute("href") or ""
    await page.goto(PAGES["chats"])
    pages["chat"] = await page.locator("#result_list tbody th a").first.get_attribute("href") or ""
    found: list[str] = []
    for name, address in pages.items():
        await page.goto(address)
        if name == "live":
            await expect(page.locator("#live-state")).to_have_text("Follows what happens.")
        await person.shot(f"admin-{name}-{way}")
        told = await bad(page, f"{name} {way}", within="main")
        stock = ("#searchbar", ".small > a")
        found += [one for one in told if not any(part in one for part in stock)]
        wider = await page.evaluate("document.documentElement.scrollWidth - innerWidth")
        # Stock admin's own lists scroll sideways on a phone.
        if name not in ("answers", "audit", "chats"):
            assert wider <= 0, (name, way)
    assert found == [], "\n".join(found)


async def test_the_live_page_follows_and_stops_an_answer(new_person: NewPerson) -> None:
    person = await new_person()
    page = person.page
    await person.become_superuser()
    await page.goto("/admin/live/")
    await expect(page.locator("#live-state")).to_have_text("Follows what happens.")
    chat = await person.context.new_page()
    await chat.goto("/")
    await chat.locator("#text").fill("say:4000 every:50")
    await chat.keyboard.press("Enter")
    line = page.locator("#live tbody tr", has_text=person.name)
    await expect(line).to_be_visible(timeout=20_000)
    await expect(line.locator("td").nth(6)).not_to_have_text("-", timeout=20_000)
    await line.locator("input[type=checkbox]").check()
    await page.get_by_role("button", name="Stop those chosen").click()
    await expect(page.locator(".messagelist")).to_contain_text("1 stopped", timeout=20_000)
    await expect(page.locator("#live tbody tr", has_text=person.name)).to_have_count(0)


async def test_an_export_shows_how_far_it_is_and_is_a_file(new_person: NewPerson) -> None:
    person = await new_person()
    page = person.page
    await person.become_superuser()
    await page.goto("/")
    await (await person.ask("say:5")).until_status("completed")
    await page.goto(f"/admin/chatapp/response/?q={person.name}")
    async with page.expect_download() as download:
        await page.get_by_role("button", name="JSON lines").click()
    saved = await download.value
    assert saved.suggested_filename == "answers.jsonl"
    await expect(page.locator(".export output")).to_have_text("1 rows exported.")
