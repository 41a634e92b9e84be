"""Long names and little room: what is beside something stays beside it, and in line with it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
from playwright.async_api import expect

from tests.browser.conftest import DESK, OUTPUT

if TYPE_CHECKING:
    from playwright.async_api import Locator

    from tests.browser.conftest import NewPerson, Person

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

NARROW = {"width": 360, "height": 740}
LONG = "a-model-with-a-rather-long-name-of-its-own-2026-11-preview"
MODELS = """async (long) => {
  const {ModelPicker} = await import(
    performance.getEntriesByType('resource').find(({name}) => /chat\\/picker/.test(name)).name);
  const select = document.createElement('select');
  for (const name of [long, 'other']) {
    const option = new Option(name, name);
    option.dataset.about = 'reads 8,192 tokens · writes up to 2,048 · sees pictures · a million ' +
      'read cost 0.5, written 1.5';
    select.append(option);
  }
  document.querySelector('.model').replaceChildren(select);
  new ModelPicker(select, 'Model');
}"""


async def box(locator: Locator) -> dict[str, Any]:
    found = await locator.bounding_box()
    assert found is not None
    return {**found}


@pytest.mark.parametrize("viewport", [DESK, NARROW], ids=["wide", "narrow"])
async def test_a_long_name_of_a_model_is_cut_and_covers_nothing(
    new_person: NewPerson, viewport: dict[str, int]
) -> None:
    touch = viewport is NARROW
    person = await new_person(viewport=viewport, has_touch=touch, is_mobile=touch)
    page = person.page
    await page.goto("/")
    await person.until_alive()
    await person.box.fill("hang")
    await person.send.click()  # on touch, Enter makes a line
    await expect(person.answer.item).to_be_visible()
    await person.until_alive()
    await page.evaluate(MODELS, LONG)
    picker, stop = await box(page.locator(".picker")), await box(person.stop)
    assert picker["x"] + picker["width"] <= stop["x"], "it lies under Stop"
    shown = page.locator(".picker > span")
    assert await shown.evaluate("it => getComputedStyle(it).textOverflow") == "ellipsis"
    last = await box(shown)
    assert last["x"] + last["width"] < picker["x"] + picker["width"] - 8, "room for its arrow"
    await page.locator(".picker").click()
    cut = await page.locator(".picker-list li").evaluate_all(
        "all => all.filter((it) => it.scrollWidth > it.clientWidth).length"
    )
    assert cut == 0, "what a model can do is read in full"
    listed = await box(page.locator(".picker-list"))
    assert listed["x"] >= 0
    assert listed["x"] + listed["width"] <= viewport["width"]
    OUTPUT.mkdir(parents=True, exist_ok=True)
    await page.screenshot(path=OUTPUT / f"picker-long-{viewport['width']}.png")
    await page.keyboard.press("Escape")
    await person.stop.click()
    await person.answer.until_status("cancelled")


async def test_what_stands_in_a_row_stands_in_line(person: Person) -> None:
    page = person.page
    await page.goto("/")
    answer = await person.ask("hang")
    await person.until_alive()  # it is another page than the one that asked
    await person.stop.click()
    await answer.until_status("cancelled")
    icon = await box(answer.end.locator("> .icon"))
    label, again = await box(answer.end.locator("strong")), await box(answer.end.locator("button"))
    middles = [it["y"] + it["height"] / 2 for it in (icon, label, again)]
    assert max(middles) - min(middles) < 2, "the mark of an end, its words and its button"
    await person.context.set_offline(True)
    await page.wait_for_function("() => !navigator.onLine")
    await person.box.fill("for later")
    await person.box.press("Enter")
    row = page.locator("#unsent li")
    await expect(row).to_contain_text("for later")
    tops = {(await box(button))["y"] for button in await row.locator("button").all()}
    assert len(tops) == 1, "both buttons of a message that waits"
    await row.get_by_role("button", name="Remove").click()
    await person.context.set_offline(False)


async def test_at_four_times_the_size_the_talk_and_the_chats_can_be_read(
    new_person: NewPerson,
) -> None:
    """WCAG 1.4.10: 1280 by 1024 at 400 % is 320 by 256."""
    person = await new_person(viewport={"width": 320, "height": 256})
    page = person.page
    await page.goto("/")
    await (await person.ask("say:80")).until_status("completed")
    talk = await box(page.locator("#scroller"))
    assert talk["height"] >= 64, "two lines and a half of it at least"
    OUTPUT.mkdir(parents=True, exist_ok=True)
    await page.screenshot(path=OUTPUT / "zoomed.png")
    await page.get_by_role("button", name="Chats").click()
    listed = page.locator("#side [data-chat] a").first
    await listed.scroll_into_view_if_needed()
    shown = await box(listed)
    assert 0 <= shown["y"] <= 256 - shown["height"]
    await page.screenshot(path=OUTPUT / "zoomed-side.png")
    await listed.click(trial=True, timeout=5_000)


async def test_chats_over_the_page_go_beside_it_when_a_phone_is_turned(person: Person) -> None:
    page = person.page
    await page.set_viewport_size({"width": 800, "height": 700})
    await page.goto("/")
    await person.until_alive()
    await page.get_by_role("button", name="Chats").click()
    await expect(page.locator("#side:popover-open")).to_have_count(1)
    await page.set_viewport_size(DESK)  # type: ignore[arg-type]  # a TypedDict
    await expect(page.locator("#side:popover-open")).to_have_count(0)
    assert (await box(page.locator("#side")))["width"] < 300


async def test_a_chat_named_by_one_long_word_fits_its_settings(new_person: NewPerson) -> None:
    person = await new_person(viewport=NARROW)
    page = person.page
    await page.goto("/")
    await (await person.ask("Rindfleischetikettierung" * 8)).until_status("completed")
    await page.goto(f"{page.url}settings")
    name = await box(page.locator(".lead a"))
    assert name["x"] + name["width"] <= NARROW["width"]


async def test_turning_a_phone_brings_no_new_words(new_person: NewPerson) -> None:
    person = await new_person(viewport=DESK)
    page = person.page
    await page.goto("/")
    await (await person.ask("say:600")).until_status("completed")
    await person.until_alive()
    await page.locator("#scroller").hover()
    await page.mouse.wheel(0, -4_000)
    latest = page.locator("#latest")
    await expect(latest).to_be_visible()
    height = "document.querySelector('#scroller').scrollHeight"
    before = await page.evaluate(height)
    await page.set_viewport_size(NARROW)  # type: ignore[arg-type]  # a TypedDict
    await page.wait_for_function(f"(before) => {height} > before + 100", arg=before)
    await expect(latest).to_have_text(re.compile("latest"), use_inner_text=True)
    await expect(latest).not_to_have_attribute("data-unread", "")
