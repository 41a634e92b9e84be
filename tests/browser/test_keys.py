"""Everything by keyboard, and a focus that stays where the person put it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from playwright.async_api import expect

from chatapp.templatetags.words import table
from tests.browser.conftest import end_words

if TYPE_CHECKING:
    from playwright.async_api import Page

    from tests.browser.conftest import Person

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]
FOCUSED = """() => {
    const it = document.activeElement;
    if (it.localName !== 'article') return it.id || it.localName;
    return it.innerText.trim().split('\\n').at(-1);
}"""


async def focused(page: Page) -> str:
    """The id of what has the focus; of a message its last line."""
    found: str = await page.evaluate(FOCUSED)
    return found


async def test_the_sheet_says_the_keys_and_switches_single_ones_off(person: Person) -> None:
    page = person.page
    await page.goto("/")
    await person.until_alive()
    sheet = page.get_by_role("dialog", name="Keyboard")
    await person.box.press("?")
    await expect(person.box).to_have_value("?")
    await person.box.fill("")
    await page.locator("h1").click()
    await page.keyboard.press("?")
    await expect(sheet).to_be_visible()
    await person.shot("keyboard")
    await page.keyboard.press("Escape")
    await expect(sheet).to_be_hidden()
    await page.keyboard.press("/")
    await expect(person.box).to_be_focused()
    await page.get_by_role("button", name="Keyboard").click()
    await sheet.get_by_role("checkbox").uncheck()
    await sheet.get_by_role("button", name="Close").click()
    await page.reload()
    await person.until_alive()
    await page.locator("h1").click()
    await page.keyboard.press("?")
    await expect(sheet).to_be_hidden()
    await page.get_by_role("button", name="Keyboard").click()
    await expect(sheet.get_by_role("checkbox")).not_to_be_checked()


async def test_a_key_in_the_frame_in_which_the_sheet_closed_is_not_lost(person: Person) -> None:
    """Until the next frame the focus is still at the checkbox of the sheet, which is gone."""
    page = person.page
    await page.goto("/")
    await person.until_alive()
    await page.locator("h1").click()
    await page.keyboard.press("?")
    await expect(page.get_by_role("dialog", name="Keyboard")).to_be_visible()
    was, became = await page.evaluate("""() => {
        document.querySelector('#keys').close();
        const was = document.activeElement.id;
        const key = { key: '/', bubbles: true, cancelable: true };
        document.activeElement.dispatchEvent(new KeyboardEvent('keydown', key));
        return [was, document.activeElement.id];
    }""")
    assert (was, became) == ("single-keys", "text")


async def test_from_message_to_message_and_out_of_a_form(person: Person) -> None:
    page = person.page
    await page.goto("/")
    for text in ("first", "second"):
        await person.ask(text)
        await person.answer.until_status("completed")
    await page.locator("#scroller").focus()
    seen = []
    for key in ("k", "k", "k", "k", "k", "j", "l"):
        await page.keyboard.press(key)
        seen.append(await focused(page))
    assert seen == [
        "You said: second",
        "second",
        "You said: first",
        "first",
        "first",
        "You said: first",
        "You said: second",
    ]
    await person.box.focus()
    await page.keyboard.press("ArrowUp")
    edit = page.locator("#transcript > .question").last.locator("textarea")
    await expect(edit).to_be_focused()
    await expect(edit).to_have_value("second")
    await page.keyboard.press("Escape")
    await expect(edit).to_be_hidden()
    await expect(page.locator("#transcript > .question").last.locator("summary")).to_be_focused()
    await person.box.fill("draft")
    await page.keyboard.press("ArrowUp")
    await expect(person.box).to_be_focused()


async def test_escape_stops_from_anywhere_and_nothing_takes_the_focus(person: Person) -> None:
    page = person.page
    await page.goto("/")
    answer = await person.ask("say:3001 every:30")
    await answer.until_words(3)
    await page.keyboard.press("ArrowUp")
    await expect(person.box).to_be_focused()
    await page.locator("#transcript > .question article").focus()
    await answer.until_words(20)
    assert await focused(page) == "say:3001 every:30"
    await page.keyboard.press("Escape")
    await answer.until_status("cancelled")
    await expect(answer.end).to_contain_text(end_words("cancelled", "user")["happened"])
    assert await focused(page) == "say:3001 every:30"


async def test_who_reads_further_up_is_told_of_new_words_and_taken_to_them(person: Person) -> None:
    page = person.page
    await page.set_viewport_size({"width": 1280, "height": 420})
    await page.goto("/")
    answer = await person.ask("say:700 every:15")
    await answer.until_words(300)
    await page.locator("#scroller").hover()
    await page.mouse.wheel(0, -200)
    latest = page.get_by_role("button", name=table()["buttons"]["unread"])
    await expect(latest).to_be_visible()
    await latest.focus()
    await page.keyboard.press("Enter")
    await expect(latest).to_be_hidden()
    await expect(answer.item.get_by_role("article")).to_be_focused()


async def test_marked_words_do_not_move(person: Person) -> None:
    page = person.page
    await page.set_viewport_size({"width": 1280, "height": 420})
    await page.goto("/")
    answer = await person.ask("say:500 every:15")
    await answer.until_words(250)
    mark = """() => {
        const text = document.querySelector('#transcript .answer .words p').firstChild;
        getSelection().setBaseAndExtent(text, text.length - 9, text, text.length - 2);
    }"""
    await page.evaluate(mark)
    top = await page.locator("#scroller").evaluate("it => it.scrollTop")
    await answer.until_status("completed")
    assert await page.locator("#scroller").evaluate("it => it.scrollTop") == top


async def test_a_reader_hears_sentences_if_that_is_chosen(person: Person) -> None:
    page = person.page
    await page.goto("/account/")
    await page.get_by_label("its sentences as they come").check()
    await page.get_by_role("button", name="Save").click()
    await expect(page.get_by_label("its sentences as they come")).to_be_checked()
    await page.goto("/")
    await person.ask("say:1")
    await person.answer.until_status("completed")
    await page.evaluate("""() => {
        window.heard = [];
        const region = document.querySelector('#status');
        const hear = () => window.heard.push(region.textContent);
        new MutationObserver(hear).observe(region, { childList: true });
    }""")
    await person.ask("The moon. The sea. " + " ".join(f"It is long{n}." for n in range(40)))
    await person.answer.until_status("completed")
    await page.wait_for_function("() => heard.join('').includes('long39.')")
    heard = " ".join(await page.evaluate("heard.map(it => it.trim())"))
    assert "The moon. The sea." in heard
    assert heard.count("long7.") == 1
