"""axe-core finds nothing serious on any page, in any state, light or dark, wide or narrow."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from playwright.async_api import expect

from chatapp.templatetags.words import table
from tests.browser.axe import bad
from tests.browser.conftest import DESK, PASSWORD, PHONE
from tests.chatapp.test_second_step import code_of

if TYPE_CHECKING:
    from tests.browser.conftest import NewPerson, Person

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]
PROSE = (
    "# Tides\n\nThe **moon** pulls at `the sea`, [as told](https://example.org).\n\n"
    "> Said twice\n\n1. one\n   - in it\n2. two\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n"
    "```python\ndef tide(hours: int) -> float:  # a comment\n    return 0.5 * hours\n```\n\n$a^2$"
)


async def test_every_page(visitor: Person) -> None:
    page, found = visitor.page, []
    await page.goto("/")
    await visitor.until_alive()
    found += await bad(page, "home")
    await visitor.ask("say:3")
    await visitor.answer.until_status("completed")
    chat = page.url
    for path in (
        *("/chats/", "/chats/?q=say", "/chats/?q=nothing+like+it", f"{chat}settings"),
        *("/account/", "/account/password/", "/account/email/", "/account/logout/"),
        "/nothing-here/",
    ):
        await page.goto(path)
        found += await bad(page, path)
    assert found == []


async def test_pages_of_the_second_step(visitor: Person) -> None:
    page, found = visitor.page, []
    await page.goto("/account/codes/")
    found += await bad(page, "is it you?")
    await page.get_by_label("Password").fill(PASSWORD)
    await page.get_by_role("button", name="Go on").click()
    secret = await page.locator(".secret").inner_text()
    found += await bad(page, "set up")
    await page.get_by_label("Authenticator code").fill(code_of(secret))
    await page.get_by_role("button", name="Ask for codes from now on").click()
    await expect(page.locator(".secrets li")).to_have_count(10)
    found += await bad(page, "recovery codes")
    for path in ("/account/recovery/new/", "/account/codes/off/", "/account/code/again/"):
        await page.goto(path)
        found += await bad(page, path)
    assert found == []


async def test_another_language(new_person: NewPerson) -> None:
    person = await new_person(locale="ar", bypass_csp=True)
    found = []
    for path in ("/", "/account/", "/chats/"):
        await person.page.goto(path)
        found += await bad(person.page, path)
    assert found == []


async def test_pages_for_strangers(new_person: NewPerson) -> None:
    person = await new_person(signed_in=False, bypass_csp=True)
    found = []
    for path in ("/account/login/", "/account/signup/", "/account/forgotten/"):
        await person.page.goto(path)
        found += await bad(person.page, path)
    assert found == []


async def test_a_conversation_and_what_opens_in_it(visitor: Person) -> None:
    page, found = visitor.page, []
    await page.goto("/")
    await visitor.until_alive()
    await visitor.box.fill(PROSE)
    await visitor.box.press("Enter")
    await visitor.answer.until_status("completed")
    await visitor.ask("think:5")
    await visitor.answer.until_status("completed")
    item = visitor.answer.item
    found += await bad(page, "conversation")
    await item.locator("[data-part=reasoning] > summary").click()
    await item.locator("[data-part=figures] > summary").click()
    await page.locator("#transcript > .question").last.locator(".edit > summary").click()
    found += await bad(page, "reasoning, figures and the form open")
    await page.evaluate("document.querySelector('#keys').showModal()")
    found += await bad(page, "sheet of keys")
    await page.evaluate("document.querySelector('#keys').close()")
    if (page.viewport_size or DESK)["width"] == PHONE["width"]:
        await page.get_by_role("button", name="Chats").click()
        found += await bad(page, "chats over the page")
    assert found == []


@pytest.mark.parametrize(
    ("text", "state"),
    [
        ("hang", "in_progress"),
        ("say:400 every:30", "in_progress"),
        ("think:400 every:30", "in_progress"),
        ("call:400 every:30", "in_progress"),
        ("read:9 hang", "in_progress"),
        ("miscall:3", "completed"),
        ("fail:401", "failed"),
        ("cut:after:3", "failed"),
        ("say:9999", "incomplete"),
    ],
)
async def test_an_answer_in_every_state(visitor: Person, text: str, state: str) -> None:
    page = visitor.page
    await page.goto("/")
    answer = await visitor.ask(text)
    if state == "in_progress":
        shown = ":is([data-part=state], [data-part=reasoning-label]):visible"
        await expect(answer.item.locator(shown).first).not_to_be_empty()
    await answer.until_status(state)
    found = await bad(page, text)
    if state == "in_progress":
        await visitor.stop.click()
        await answer.until_status("cancelled")
        found += await bad(page, f"{text}, stopped")
    assert found == []


async def test_a_connection_that_is_lost(visitor: Person) -> None:
    await visitor.page.goto("/")
    answer = await visitor.ask("say:600 every:30")
    await answer.until_words(30)
    await visitor.context.set_offline(True)
    await expect(answer.state).to_have_text(table()["connection"]["offline"])
    assert await bad(visitor.page, "offline") == []
    await visitor.context.set_offline(False)


async def test_axe_sees_what_is_bad(visitor: Person) -> None:
    await visitor.page.goto("/")
    await visitor.page.evaluate("document.querySelector('label[for=text]').remove()")
    await visitor.page.evaluate("document.querySelector('#text').removeAttribute('placeholder')")
    assert await bad(visitor.page, "home without a label") != []
