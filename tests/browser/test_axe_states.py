"""axe-core on what opens, waits, or went wrong; where the focus is; and what is heard, when."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from django.template.loader import render_to_string
from django.test import override_settings
from playwright.async_api import FilePayload, expect

from chatapp.templatetags.words import table
from tests.browser.axe import bad
from tests.browser.conftest import DESK, PHONE, end_words
from tests.chatapp.drawings import png

if TYPE_CHECKING:
    from playwright.async_api import Route

    from tests.browser.conftest import Person

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]
UNHASHED = "django.contrib.staticfiles.storage.StaticFilesStorage"
ID = {"error_id": "1f2e3d"}
MISTAKES = {400: {}, 403: {}, 404: {}, 429: {}, 500: ID, 503: ID}
PASTE = "\n".join(f"line {n} of what was pasted" for n in range(20))


@pytest.mark.parametrize("status", sorted(MISTAKES))
async def test_a_page_of_a_mistake(visitor: Person, status: int) -> None:
    """As it is served without DEBUG, which has pages of its own for most of them."""
    page = visitor.page
    with override_settings(STORAGES={"staticfiles": {"BACKEND": UNHASHED}}):
        body = render_to_string(f"{status}.html", MISTAKES[status])

    async def served(route: Route) -> None:
        await route.fulfill(status=status, body=body, content_type="text/html; charset=utf-8")

    await page.route("**/mistake/", served)
    await page.goto("/mistake/")
    await visitor.shot(f"mistake-{status}-{await scheme(visitor)}")
    assert await bad(page, str(status)) == []


async def scheme(visitor: Person) -> str:
    dark: bool = await visitor.page.evaluate("matchMedia('(prefers-color-scheme: dark)').matches")
    return "dark" if dark else "light"


async def test_what_stands_beside_the_box_and_waits(visitor: Person) -> None:
    page, found = visitor.page, []
    await page.goto("/")
    await visitor.until_alive()
    paste = FilePayload(name="notes.txt", mimeType="text/plain", buffer=PASTE.encode())
    picture = FilePayload(name="a.png", mimeType="image/png", buffer=png(30, 20))
    await page.locator("[data-part=pick]").set_input_files([paste, picture])
    await expect(page.locator("#composer .pictures img")).to_be_visible()
    await page.locator("#composer [data-part=attached] summary").click()
    found += await bad(page, "attached, open")
    await page.locator("#composer [data-part=asking] > summary").click()
    found += await bad(page, "how the model is asked")
    await page.keyboard.press("Escape")
    await visitor.box.fill("What is this?")
    await visitor.box.press("Enter")
    await visitor.answer.until_status("completed")
    await page.locator("#transcript .question .attached summary").click()
    found += await bad(page, "attached, said, open")
    await visitor.ask("say:900 every:30")
    await visitor.answer.until_words(3)
    await visitor.box.fill("and then this")
    await visitor.box.press("Enter")
    waits = page.locator("#transcript > .question[data-waits]")
    await expect(waits).to_be_visible()
    found += await bad(page, "a message that waits")
    await waits.locator(".edit > summary").click()
    await expect(waits.locator("textarea")).to_be_visible()
    found += await bad(page, "a message that waits, being changed")
    await visitor.shot(f"waits-edited-{await scheme(visitor)}")
    await visitor.context.set_offline(True)
    box = page.locator("#text")
    await box.fill("without a network")
    await box.press("Enter")
    await expect(page.locator("#unsent li")).to_be_visible()
    found += await bad(page, "a message that was not sent")
    await visitor.context.set_offline(False)
    assert found == []


async def test_what_opens_in_the_list_of_chats(visitor: Person) -> None:
    page, found = visitor.page, []
    await page.goto("/")
    await visitor.ask("say:3 lighthouse")
    await visitor.answer.until_status("completed")
    await visitor.until_alive()
    await page.wait_for_load_state("load")  # the scripts of the list have run
    chat = page.url
    if (page.viewport_size or DESK)["width"] == PHONE["width"]:
        await page.get_by_role("button", name="Chats").click()
    await page.locator("#side [data-chat] [data-part=options]").first.click()
    await expect(page.locator("#chat-menu")).to_be_visible()
    found += await bad(page, "menu of a chat")
    await page.get_by_role("button", name="Rename").click()
    await expect(page.locator("#side input.rename")).to_be_focused()
    found += await bad(page, "a chat being renamed")
    await page.keyboard.press("Escape")
    await page.locator("#side input[type=search]").fill("lighthouse")
    await expect(page.locator("#side .found mark").first).to_be_visible()
    found += await bad(page, "hits of a search")
    await visitor.shot(f"hits-{await scheme(visitor)}")
    for path in ("/chats/?q=lighthouse", "/account/data/", "/status", f"{chat}settings"):
        await page.goto(path)
        found += await bad(page, path)
    await page.get_by_role("button", name="Delete").last.click()
    await expect(page.locator("[data-part=undo]")).to_have_count(1)
    found += await bad(page, "a chat that can be brought back")
    assert found == []


@pytest.mark.parametrize(
    ("said", "status", "reason", "at_once"),
    [
        ("cut:after:3", "failed", "truncated", True),
        ("fail:401", "failed", "authentication", True),
        ("say:9999", "incomplete", "log_limit", False),
        ("stop", "cancelled", "user", False),
    ],
)
async def test_an_end_is_heard_once_and_takes_nobody_from_the_box(
    person: Person, said: str, status: str, reason: str, at_once: bool
) -> None:
    """What went wrong and is the person's turn is an alert; all else waits for a pause."""
    page = person.page
    await page.goto("/")
    await (await person.ask("say:1")).until_status("completed")
    answer = await person.ask("say:800 every:30" if said == "stop" else said)
    if said == "stop":
        await answer.until_words(3)
        await person.box.press("Escape")
    await answer.until_status(status)
    polite, alert = page.locator("#status"), page.locator("#failure")
    told = end_words(status, reason)
    heard, silent = (alert, polite) if at_once else (polite, alert)
    await expect(heard).to_contain_text(f"{told['label']}. {told['happened']}")
    assert told["happened"] not in (await silent.text_content() or "")
    await expect(page.locator("#transcript article").last).to_have_attribute("aria-busy", "false")
    await expect(page.locator("#scroller")).to_have_attribute("aria-live", "off")
    await expect(person.box).to_be_focused()
    again = await person.ask("say:2")
    await again.until_status("completed")
    await expect(alert).to_have_text("")
    assert table()["announce"]["completed"].format(words=2) == await polite.text_content()
