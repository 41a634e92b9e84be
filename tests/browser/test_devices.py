"""The same person on two devices, and what goes on in other chats meanwhile."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from playwright.async_api import expect

from chatapp.templatetags.words import table
from tests.browser.conftest import PHONE, until_upstream

if TYPE_CHECKING:
    from playwright.async_api import Locator

    from tests.browser.conftest import Person

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

HIDE = """() => {
    Object.defineProperty(document, 'hidden', { get: () => window.away, configurable: true });
    Object.defineProperty(document, 'visibilityState',
        { get: () => (window.away ? 'hidden' : 'visible'), configurable: true });
    window.look = (away) => {
        window.away = away;
        document.dispatchEvent(new Event('visibilitychange'));
    };
}"""
"""Headless pages are always visible: this one says otherwise when it is told to."""


def listed(person: Person, title: str) -> Locator:
    return person.page.locator("#side [data-chat]").filter(has_text=title)


async def test_what_is_asked_on_one_device_is_followed_and_stopped_on_the_other(
    person: Person,
) -> None:
    await person.page.goto("/")
    await (await person.ask("say:3")).until_status("completed")
    phone = await person.device(viewport=PHONE, has_touch=True, is_mobile=True)
    await phone.page.goto(person.page.url)
    await phone.page.evaluate("window.stillTheSamePage = true")
    said = "say:2501 every:40"
    await person.ask(said)
    await expect(phone.page.locator("#transcript > .question")).to_have_count(2)
    await phone.answer.until_words(8)
    await phone.shot("other-device", phone.page)
    await phone.stop.click()
    for one in (phone, person):
        await one.answer.until_status("cancelled")
    await until_upstream(person.site, said, "closed")
    assert await phone.answer.text() == await person.answer.text()
    # And back: the phone asks, the desk sees it.
    await phone.box.fill("say:5")
    await phone.send.click()
    await expect(person.page.locator("#transcript > .question")).to_have_count(3)
    await person.answer.until_status("completed")
    assert await person.answer.text() == "word1 word2 word3 word4 word5"
    await expect(person.page.locator("#transcript > .turn")).to_have_count(6)
    await expect(phone.page.locator("#transcript > .turn")).to_have_count(6)
    assert await phone.page.evaluate("window.stillTheSamePage")


async def test_another_branch_that_is_shown_elsewhere_is_shown_here(person: Person) -> None:
    await person.page.goto("/")
    answer = await person.ask("say:3")
    await answer.until_status("completed")
    other = await person.device()
    await other.page.goto(person.page.url)
    await person.page.get_by_role("button", name="Regenerate").click()
    await expect(person.page.get_by_text("2/2")).to_be_visible()
    await expect(other.page.get_by_text("2/2")).to_be_visible()
    await other.answer.until_status("completed")
    await expect(other.page.locator("#transcript > .turn")).to_have_count(2)


async def test_somebody_who_edits_is_not_disturbed(person: Person) -> None:
    await person.page.goto("/")
    await (await person.ask("say:3")).until_status("completed")
    other = await person.device()
    await other.page.goto(person.page.url)
    await other.page.get_by_text("Edit", exact=True).first.click()
    box = other.page.get_by_role("textbox", name="Your message, edited")
    await box.fill("half a thought")
    await person.page.get_by_text("Edit", exact=True).first.click()
    await person.page.get_by_role("textbox", name="Your message, edited").fill("say:2")
    await person.page.get_by_role("button", name=table()["buttons"]["send_edited"]).click()
    await person.answer.until_status("completed")
    await expect(listed(other, "say:3").locator(".chat-running")).to_be_hidden()
    await expect(box).to_have_value("half a thought")
    await other.page.get_by_text("Edit", exact=True).first.click()
    await expect(other.page.locator("#transcript > .question").first).to_contain_text("say:2")


async def test_the_list_of_chats_follows_what_happens_elsewhere(person: Person) -> None:
    await person.page.goto("/")
    await (await person.ask("say:2")).until_status("completed")
    other = await person.device()
    await other.page.goto("/")
    asked = await person.tab()
    await asked.ask("say:900 every:40")
    new = listed(other, "say:900")
    await expect(new.locator(".chat-running")).to_be_visible()
    await expect(other.page.locator("#side [data-chat]").first).to_contain_text("say:900")
    await other.shot("list-live", other.page)
    await asked.stop.click()
    await expect(new.locator(".chat-running")).to_be_hidden()
    # Writing in an older chat brings it to the top; the link that has the focus keeps it.
    await new.get_by_role("link").first.focus()
    again = await person.ask("say:4")
    await expect(other.page.locator("#side [data-chat]").first).to_contain_text("say:2")
    await expect(new.get_by_role("link").first).to_be_focused()
    await again.until_status("completed")
    # A name, and a deletion with its ten seconds.
    chat = person.page.url.rstrip("/").rsplit("/", 1)[1]
    token = await person.page.locator("[name=csrfmiddlewaretoken]").first.input_value()
    reply = await person.context.request.patch(
        f"/api/chats/{chat}", data={"title": "Two words"}, headers={"X-CSRFToken": token}
    )
    assert reply.ok, await reply.text()
    await expect(listed(other, "Two words")).to_be_visible()
    await expect(person.page).to_have_title("Two words · Unbroken")
    await person.page.goto("/")
    item = listed(person, "Two words")
    await item.hover()
    await item.get_by_label("Options of").click()
    await person.page.locator("#chat-menu").get_by_role("button", name="Delete").click()
    await expect(listed(other, "Two words")).to_have_count(0)
    await person.page.get_by_role("button", name="Undo").click()
    await expect(listed(other, "Two words")).to_be_visible()


async def test_an_answer_that_ends_in_another_chat_is_noted_until_it_is_looked_at(
    person: Person,
) -> None:
    await person.page.goto("/")
    await person.ask("say:160 every:40")
    chat = person.page.url
    await person.page.goto("/")
    note = listed(person, "say:160").locator("[data-part=done]")
    await expect(note).to_have_text(table()["chats"]["done"], timeout=20_000)
    await expect(person.page).to_have_title("(1) Unbroken")
    await person.shot("done-elsewhere")
    twin = await person.tab()
    await expect(twin.page).to_have_title("(1) Unbroken")
    await person.page.goto(chat)
    await expect(person.page).to_have_title("say:160 every:40 · Unbroken")
    await expect(twin.page).to_have_title("Unbroken")
    await expect(listed(twin, "say:160").locator("[data-part=done]")).to_be_hidden()


async def test_a_notification_comes_only_to_who_asked_and_looks_elsewhere(person: Person) -> None:
    await person.context.grant_permissions(["notifications"])
    await person.context.add_init_script(
        """window.told = [];
        window.Notification = class extends EventTarget {
            static permission = 'granted';
            static requestPermission = async () => 'granted';
            constructor(title, options) { super(); window.told.push([title, options.body]); }
            close() {}
        };"""
    )
    await person.page.goto("/")
    button = person.page.get_by_role("button", name=table()["chats"]["notify"])
    await expect(button).to_have_attribute("aria-pressed", "false")
    for pressed, count in ((False, 0), (True, 1)):
        if pressed:
            await button.click()
            await expect(button).to_have_attribute("aria-pressed", "true")
        answer = await person.ask("say:20 every:40")
        await person.page.evaluate(HIDE)
        await person.page.evaluate("look(true)")
        await answer.until_status("completed")
        await expect(person.page).to_have_title("(1) say:20 every:40 · Unbroken")
        told = await person.page.evaluate("window.told")
        assert told == [["say:20 every:40", table()["chats"]["answered"]]] * count
        await person.page.evaluate("look(false)")
        await expect(person.page).to_have_title("say:20 every:40 · Unbroken")
        await person.page.reload()
