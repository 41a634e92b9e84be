"""Without scripts, on narrow screens, and while somebody reads further up."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import pytest
from playwright.async_api import TimeoutError, expect

from chatapp.templatetags.words import table
from tests.browser.conftest import PHONE, end_words

if TYPE_CHECKING:
    from tests.browser.conftest import NewPerson, Person

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

FITS = """width => document.documentElement.scrollWidth === width
    && document.querySelector('#scroller').scrollWidth <= width"""
TOO_WIDE = """width => [...document.querySelectorAll('*')]
    .filter(e => e.getBoundingClientRect().right > width).map(e => e.outerHTML.slice(0, 90))"""


async def test_without_scripts_a_form_and_reloads_bring_the_whole_answer(
    new_person: NewPerson,
) -> None:
    person = await new_person(java_script_enabled=False)
    await person.page.goto("/")
    await person.box.fill("say:100 every:40")
    await person.send.click()
    refreshes = person.page.locator("noscript p")
    await expect(refreshes).to_have_text(table()["state"]["refreshes"])
    await expect(refreshes).to_be_visible()
    await person.shot("without-scripts")
    await expect(person.answer.words).to_contain_text("word100", timeout=20_000)
    await expect(person.answer.item).to_have_attribute("data-status", "completed")
    await expect(refreshes).to_have_count(0)
    await person.box.fill("cut:after:3")
    await person.send.click()
    await expect(person.answer.end).to_contain_text(end_words("failed", "truncated")["happened"])


async def test_without_scripts_stop_is_a_button_like_any_other(new_person: NewPerson) -> None:
    person = await new_person(java_script_enabled=False)
    await person.page.goto("/")
    await person.box.fill("say:3300 every:40")
    await person.send.click()
    await person.stop.click()
    await expect(person.answer.end).to_contain_text(end_words("cancelled", "user")["happened"])


@pytest.mark.parametrize("width", [390, 360])
async def test_a_phone_shows_everything_without_scrolling_sideways(
    new_person: NewPerson, width: int
) -> None:
    phone = {"width": width, "height": 740}
    person = await new_person(viewport=phone, has_touch=True, is_mobile=True)
    page = person.page
    await page.goto("/")
    await person.until_alive()
    await person.box.fill("https://example.org/" + "a" * 200)
    await person.send.tap()
    await person.answer.until_status("completed")
    # What is on its way in or out may stand beside the page for a frame, and a phone then makes all
    # of it as wide. Both are asked for at once: between two questions such a frame was seen.
    with suppress(TimeoutError):
        await page.wait_for_function(FITS, arg=width, timeout=5_000)
    wide = await page.evaluate(TOO_WIDE, width)
    assert await page.evaluate(FITS, width), wide
    box = await person.send.bounding_box()
    assert box
    assert box["y"] + box["height"] <= phone["height"]
    await page.get_by_role("button", name="Chats").tap()
    chats = page.get_by_role("navigation", name="Chats")
    await expect(chats).to_be_visible()
    await page.screenshot(path=_output(f"chats-{width}"))
    await chats.get_by_role("button", name="Close").tap()
    await expect(chats).to_be_hidden()


async def test_enter_makes_a_line_on_a_touch_screen(new_person: NewPerson) -> None:
    person = await new_person(viewport=PHONE, has_touch=True, is_mobile=True)
    await person.page.goto("/")
    await person.until_alive()
    await person.box.press_sequentially("one")
    await person.box.press("Enter")
    await person.box.press_sequentially("two")
    await expect(person.box).to_have_value("one\ntwo")


async def test_who_reads_further_up_is_left_alone_and_can_come_back(person: Person) -> None:
    page = person.page
    await page.set_viewport_size({"width": 1280, "height": 420})
    await page.goto("/")
    answer = await person.ask("say:700 every:15")
    await answer.until_words(300)
    scroller = page.locator("#scroller")
    end = "it => it.scrollHeight - it.scrollTop - it.clientHeight"
    assert await scroller.evaluate(end) < 60, "the end stays in sight"
    await scroller.hover()
    await page.mouse.wheel(0, -200)
    latest = page.locator("#latest")
    await expect(latest).to_be_visible()
    top = await scroller.evaluate("it => it.scrollTop")
    await answer.until_words(500)
    assert await scroller.evaluate("it => it.scrollTop") == top
    await person.shot("reading-further-up")
    await latest.click()
    await expect(latest).to_be_hidden()
    await answer.until_status("completed")
    assert await scroller.evaluate(end) < 60


async def test_a_selection_survives_the_words_that_follow(person: Person) -> None:
    await person.page.goto("/")
    answer = await person.ask("say:90 every:40")
    await answer.until_words(10)
    select = """() => {
        const text = document.querySelector('#transcript .answer .words p').firstChild;
        getSelection().setBaseAndExtent(text, 0, text, 11);
    }"""
    await person.page.evaluate(select)
    await answer.until_status("completed")
    assert await person.page.evaluate("getSelection().toString()") == "word1 word2"


async def test_what_assistive_technology_is_told(person: Person) -> None:
    await person.page.goto("/")
    answer = await person.ask("say:120 every:30")
    await answer.until_words(3)
    log = person.page.get_by_role("log", name="Conversation")
    await expect(log).to_have_attribute("aria-live", "off")
    await expect(log.get_by_role("article", name="Answer")).to_have_attribute("aria-busy", "true")
    status = person.page.get_by_role("status")
    await expect(status).to_have_text(table()["announce"]["started"])
    await expect(person.page.get_by_role("button", name="Stop")).to_be_visible()
    await answer.until_status("completed")
    await expect(log.get_by_role("article", name="Answer")).to_have_attribute("aria-busy", "false")
    await expect(status).to_have_text(table()["announce"]["completed"].format(words=120))


def _output(name: str) -> str:
    from tests.browser.conftest import OUTPUT

    OUTPUT.mkdir(parents=True, exist_ok=True)
    return str(OUTPUT / f"{name}.png")


async def test_a_table_of_many_columns_has_room_for_words_and_scrolls_by_itself(
    person: Person,
) -> None:
    row = "| " + " | ".join(["some words that explain", "42", "`code_value`"] * 3) + " |"
    head = "| " + " | ".join(f"Column {n}" for n in range(9)) + " |"
    wide = "\n".join([head, "|---" * 9 + "|", row, row])
    page = person.page
    await page.goto("/")
    await person.until_alive()
    await person.box.fill(f"A table:\n\n{wide}")
    await person.box.press("Enter")
    await person.answer.until_status("completed")
    cells = person.answer.words.locator("th, td")
    heights = await cells.evaluate_all("cells => cells.map((cell) => cell.clientHeight)")
    assert len(heights) == 27
    assert max(heights) < 60, "one line each"
    region = person.answer.words.locator(".table")
    assert await region.evaluate("it => it.scrollWidth > it.clientWidth")
    assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    await person.shot("broad-table")
