"""Versions in the browser: written by scripts or by the server, they are the same forms."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import pytest
from playwright.async_api import expect

from chatapp.templatetags.words import table

if TYPE_CHECKING:
    from tests.browser.conftest import NewPerson, Person

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

BUTTONS = table()["buttons"]


async def test_a_question_is_edited_and_its_first_version_comes_back(person: Person) -> None:
    page = person.page
    await page.goto("/")
    await person.ask("How do tides work?")
    await person.answer.until_status("completed")
    # Without a reload: this turn was written by scripts.
    answer = await person.ask("And the wind?")
    await answer.until_status("completed")
    question = page.locator("#transcript > .question").last
    await question.hover()
    await question.get_by_text(BUTTONS["edit"], exact=True).click()
    box = question.get_by_role("textbox", name="Your message, edited")
    await expect(box).to_have_value("And the wind?")
    await box.fill("And the rain?")
    await person.shot("editing")
    await question.get_by_role("button", name=BUTTONS["send_edited"]).click()
    await expect(page.locator("[data-part=question]").last).to_have_text("And the rain?")
    await person.answer.until_status("completed")
    assert await person.answer.text() == "You said: And the rain?"
    versions = page.get_by_role("group", name="Version 2 of 2")
    await expect(versions).to_be_visible()
    await person.shot("versions")
    await expect(versions.get_by_role("button", name="Next version")).to_be_disabled()
    await versions.get_by_role("button", name="Previous version").focus()
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("group", name="Version 1 of 2")).to_be_visible()
    assert await person.answer.text() == "You said: And the wind?"
    await expect(page.locator("[data-part=question]").first).to_have_text("How do tides work?")


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_what_a_hidden_branch_says_is_found_opened_and_marked(
    new_person: NewPerson, scheme: Literal["light", "dark"]
) -> None:
    person = await new_person(color_scheme=scheme)
    page = person.page
    await page.goto("/")
    await (await person.ask("How do zebras sleep?")).until_status("completed")
    question = page.locator("#transcript > .question").last
    await question.hover()
    await question.get_by_text(BUTTONS["edit"], exact=True).click()
    await question.get_by_role("textbox").fill("How do lions sleep?")
    await question.get_by_role("button", name=BUTTONS["send_edited"]).click()
    await person.answer.until_status("completed")
    await page.get_by_role("searchbox").fill("zebras")
    hit = page.get_by_role("button", name=table()["chats"]["on_branch"])
    await expect(hit).to_contain_text("How do zebras sleep?")
    await person.shot(f"found-on-branch-{scheme}")
    await hit.click()
    found = page.locator("#transcript > .turn:target")
    await expect(found).to_contain_text("How do zebras sleep?")
    await expect(found).to_be_in_viewport()
    await expect(page.get_by_role("group", name="Version 1 of 2")).to_be_visible()
    await person.until_alive()
    await person.shot(f"found-and-marked-{scheme}")


async def test_a_stopped_answer_goes_on_without_a_seam_and_is_followed(person: Person) -> None:
    await person.page.goto("/")
    answer = await person.ask("say:400 every:30")
    await answer.until_words(5)
    await person.stop.click()
    await answer.until_status("cancelled")
    begun = await answer.text()
    await person.shot("may-continue")
    await answer.item.get_by_role("button", name=BUTTONS["continue"]).click()
    await answer.until_status("completed")
    whole = await answer.text()
    assert whole.startswith(f"{begun} You said: Your last message broke off")
    assert whole.count("word1 ") == 1
    assert await person.page.locator("#transcript > .answer").count() == 1
    await person.page.reload()
    assert (await answer.text()).split() == whole.split()
    await expect(answer.item.get_by_role("button", name=BUTTONS["continue"])).to_be_hidden()
    await answer.item.get_by_role("button", name=BUTTONS["regenerate"]).click()
    await expect(person.page.get_by_role("group", name="Version 2 of 2")).to_be_visible()
    await person.answer.until_words(5)
    await person.stop.click()
    await person.answer.until_status("cancelled")


async def test_an_answer_on_another_version_is_reached_and_stopped(person: Person) -> None:
    page = person.page
    await page.goto("/")
    await person.ask("say:600 every:40")
    await person.answer.until_words(3)
    await expect(
        person.answer.item.get_by_role("button", name=BUTTONS["regenerate"])
    ).to_be_hidden()
    await person.stop.click()
    await person.answer.until_status("cancelled")
    # One button for one thing.
    await expect(
        person.answer.item.get_by_role("button", name=BUTTONS["regenerate"])
    ).to_be_hidden()
    await person.answer.item.get_by_role("button", name=BUTTONS["retry"]).click()
    await expect(page.get_by_role("group", name="Version 2 of 2")).to_be_visible()
    await person.answer.until_words(3)
    await page.get_by_role("button", name="Previous version").click()
    elsewhere = page.get_by_text(table()["branches"]["elsewhere"])
    await expect(elsewhere).to_be_visible()
    await person.shot("elsewhere")
    await page.get_by_role("button", name=table()["branches"]["go"]).click()
    await expect(page.get_by_role("group", name="Version 2 of 2")).to_be_visible()
    await person.answer.until_words(20)
    await person.stop.click()
    await person.answer.until_status("cancelled")


async def test_the_row_of_a_turn_takes_no_place_of_its_own_when_it_appears(
    new_person: NewPerson,
) -> None:
    person = await new_person(color_scheme="dark")
    await person.page.goto("/")
    await person.ask("How do tides work?")
    await person.answer.until_status("completed")
    await person.ask("say:30")
    await person.answer.until_status("completed")
    heights = "[...document.querySelectorAll('#transcript > li')].map((it) => it.offsetHeight)"
    before = await person.page.evaluate(heights)
    await person.page.locator("#transcript > .answer").first.hover()
    assert await person.page.evaluate(heights) == before
    await person.shot("actions-dark")


async def test_on_a_phone_every_button_is_there_and_large_enough(new_person: NewPerson) -> None:
    phone = {"width": 360, "height": 740}
    person = await new_person(viewport=phone, has_touch=True, is_mobile=True)
    page = person.page
    await page.goto("/")
    await person.until_alive()
    for text in ("one", "two"):
        await person.box.fill(text)
        await person.send.tap()
        await expect(page.locator("[data-part=question]").last).to_have_text(text)
        await person.answer.until_status("completed")
    for button in await page.locator(".actions .act:visible").all():
        box = await button.bounding_box()
        assert box
        assert min(box["width"], box["height"]) >= 44
        assert await button.evaluate("it => getComputedStyle(it).opacity") == "1"
    assert await page.evaluate("document.querySelector('#scroller').scrollWidth") <= 360
    await page.locator(".edit summary").last.tap()
    from tests.browser.conftest import OUTPUT

    await page.screenshot(path=OUTPUT / "editing-phone.png")
