"""The page in other languages, one of them from right to left; pictures for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from django.utils import translation
from playwright.async_api import expect

from chatapp.templatetags.words import table
from tests.browser.conftest import DESK, PHONE

if TYPE_CHECKING:
    from playwright.async_api import Page

    from tests.browser.conftest import NewPerson, Person

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

PATIENCE_MS = 30_000
SAVED = "Deine Einstellungen sind gespeichert."
WIDTH = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


async def reads(page: Page, path: str, language: str, direction: str) -> None:
    await page.goto(path)
    await expect(page.locator("html")).to_have_attribute("lang", language, timeout=PATIENCE_MS)
    assert await page.evaluate("getComputedStyle(document.body).direction") == direction
    await page.set_viewport_size(PHONE)  # type: ignore[arg-type]  # a TypedDict
    assert await page.evaluate(WIDTH) == 0, "it must not scroll sideways"
    await page.set_viewport_size(DESK)  # type: ignore[arg-type]


async def middle(person: Person, selector: str) -> float:
    box = await person.page.locator(selector).bounding_box()
    assert box
    return box["x"] + box["width"] / 2


@pytest.mark.parametrize(("language", "direction"), [("de", "ltr"), ("ar", "rtl")])
@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_every_page_is_there_in_it(
    new_person: NewPerson, language: str, direction: str, scheme: str
) -> None:
    person = await new_person(locale=language, color_scheme=scheme)
    for name, path in {
        "home": "/",
        "account": "/account/",
        "chats": "/chats/?q=nothing",
        "password": "/account/password/",
    }.items():
        await reads(person.page, path, language, direction)
        await person.shot(f"{language}-{scheme}-{name}")
    stranger = await new_person(locale=language, color_scheme=scheme, signed_in=False)
    for name, path in {"login": "/account/login/", "signup": "/account/signup/"}.items():
        await reads(stranger.page, path, language, direction)
        await stranger.shot(f"{language}-{scheme}-{name}")


async def test_a_chat_from_right_to_left(new_person: NewPerson) -> None:
    person = await new_person(locale="ar")
    page = person.page
    with translation.override("ar"):
        words = table()
    await page.goto("/")
    await person.until_alive()
    assert await middle(person, "#side") > DESK["width"] / 2, "what was left is right"
    question = page.locator("#transcript > .question [data-part=question]").last
    await page.locator("#text").fill("say:30 every:5\n\nكيف يتكوّن قوس قزح؟")
    await page.locator("#text").press("Enter")
    await expect(question).to_contain_text("قوس", timeout=PATIENCE_MS)
    await person.answer.until_status("completed")
    await page.locator("#text").fill("cut:after:3")
    await page.locator("#text").press("Enter")
    await person.answer.until_status("failed")
    # What the page's own scripts say, and what the server says once it is loaded anew.
    happened = words["ends"]["failed"]["truncated"]["happened"]
    await expect(person.answer.end).to_contain_text(happened, timeout=PATIENCE_MS)
    await person.shot("ar-chat")
    await page.reload()
    await expect(person.answer.end).to_contain_text(happened, timeout=PATIENCE_MS)
    # A name in another script begins where the others do, and under nothing.
    title = await middle(person, "#side .chat-title")
    more = await middle(person, "#side .chat-more")
    assert title > more
    aligned = "it => getComputedStyle(it).textAlign"
    assert "right" in await page.locator("#side .chat-title").first.evaluate(aligned)
    # English within: each paragraph begins where its own language does.
    text = person.answer.words.locator("p").first
    assert await text.evaluate("it => getComputedStyle(it).unicodeBidi") == "plaintext"


async def test_what_the_server_refuses_is_said_in_the_language_of_the_page(
    new_person: NewPerson,
) -> None:
    """A browser that asks for English, a person who has chosen German."""
    person = await new_person(locale="en-GB")
    page = person.page
    await page.goto("/account/")
    await page.get_by_label("Language").select_option("de")
    await page.get_by_role("button", name="Save", exact=True).click()
    await expect(page.get_by_role("status")).to_have_text(SAVED, timeout=PATIENCE_MS)
    await page.goto("/")
    await person.until_alive()
    reply = await page.evaluate(
        """async () => {
            const { post } = await import(document.querySelector('script[src*="home"]')
                .src.replace(/home[^/]*$/, 'http.js'));
            return post('/api/responses', { json: { model: "scripted", input: '' } });
        }"""
    )
    assert reply["status"] == 422
    assert "Es gibt nichts zu beantworten" in reply["detail"]
