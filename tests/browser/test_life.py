"""What is seen of an answer besides its words: reasoning, tool calls, notices, figures, copies."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from playwright.async_api import expect

from chatapp.templatetags.words import table

if TYPE_CHECKING:
    from playwright.async_api import Locator

    from tests.browser.conftest import NewPerson, Person

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]
PASTED = "navigator.clipboard.readText()"


def part(person: Person, name: str) -> Locator:
    return person.answer.item.locator(f"[data-part={name}]")


async def test_reasoning_folds_away_and_says_how_long_it_took(person: Person) -> None:
    await person.page.goto("/")
    answer = await person.ask("think:60 every:40")
    label = part(person, "reasoning-label")
    await expect(label).to_have_text(table()["reasoning"]["now"])
    await expect(part(person, "reasoning-text")).to_be_hidden()
    await expect(answer.state).to_be_hidden()
    await person.shot("reasoning")
    await label.click()
    await expect(part(person, "reasoning-text")).to_contain_text("thought9")
    await person.shot("reasoning-open")
    await answer.until_status("completed")
    await expect(label).to_have_text(re.compile(r"^Thought for \d+ s$"))
    said = await label.text_content() or ""
    await expect(part(person, "reasoning-text")).to_be_visible()
    await person.shot("reasoned")
    await person.page.reload()
    await expect(label).to_have_text(said)
    await expect(part(person, "reasoning-text")).to_be_hidden()


async def test_a_tool_call_fills_in_and_stays_as_it_was_after_a_reload(person: Person) -> None:
    await person.page.goto("/")
    answer = await person.ask("call:40 every:40")
    call = part(person, "calls").locator("li")
    await expect(call.locator("dt")).to_have_text(["city", "days", "note"])
    await expect(call.locator("span")).to_have_text(table()["calls"]["open"])
    await expect(call.locator("dd").last).to_contain_text("word5")
    await person.shot("tool-call")
    await answer.until_status("completed")
    await expect(call.locator("span")).to_have_text("")
    shown = await part(person, "calls").inner_text()
    await person.shot("tool-called")
    await person.page.reload()
    assert await part(person, "calls").inner_text() == shown
    assert shown.rstrip().endswith("word40")


async def test_a_call_that_cannot_be_read_says_so(person: Person) -> None:
    await person.page.goto("/")
    answer = await person.ask("miscall:3")
    said = table()["calls"]["invalid"].partition(":")[0]
    call = part(person, "calls").locator("li")
    await expect(call).to_contain_text(said)
    await expect(call).to_contain_text('"city": "Bern"')
    await expect(answer.item).not_to_have_attribute("data-running", "")
    await person.shot("tool-call-invalid")
    await person.page.reload()
    await expect(call).to_contain_text(said)


async def test_reading_the_prompt_has_a_bar(person: Person) -> None:
    await person.page.goto("/")
    answer = await person.ask("read:10 every:20 hang")
    await expect(answer.state).to_have_text("Reading the prompt, 1280 of 1280 tokens")
    bar = part(person, "progress")
    await expect(bar).to_be_visible()
    assert await bar.evaluate("it => it.value / it.max") == 1
    await person.shot("reading-the-prompt")
    await person.page.reload()
    await expect(bar).to_be_visible()
    await person.stop.click()
    await answer.until_status("cancelled")
    await expect(bar).to_be_hidden()


async def test_figures_are_there_for_who_asks(person: Person) -> None:
    await person.page.goto("/")
    answer = await person.ask("say:5 every:60")
    await expect(part(person, "figures")).to_be_hidden()
    await answer.until_status("completed")
    figures = part(person, "figures-list")
    await expect(figures).to_be_hidden()
    await part(person, "figures").locator("summary").click()
    await expect(figures).to_contain_text("scripted (scripted-1)")
    await expect(figures).to_contain_text(table()["figures"]["end"]["stop"])
    shown = await figures.inner_text()
    await person.shot("figures")
    await person.page.reload()
    await part(person, "figures").locator("summary").click()
    assert await figures.inner_text() == shown


async def test_an_answer_is_copied_as_text_and_as_markdown(new_person: NewPerson) -> None:
    person = await new_person(permissions=["clipboard-read", "clipboard-write"])
    page, status = person.page, person.page.locator("#status")
    await page.goto("/")
    await person.ask("say:1")
    await person.answer.until_status("completed")
    await person.ask("**bold** and `code`")
    await expect(status).to_have_text(table()["announce"]["completed"].format(words=5))
    for reloaded in (False, True):
        if reloaded:
            await page.reload()
            await person.until_alive()
        item = person.answer.item
        await item.get_by_role("button", name=table()["buttons"]["copy"], exact=True).click()
        await expect(status).to_have_text(table()["copy"]["message"])
        assert await page.evaluate(PASTED) == "You said: bold and code"
        await item.get_by_role("button", name=table()["buttons"]["copy_markdown"]).click()
        await expect(status).to_have_text(table()["copy"]["markdown"])
        assert await page.evaluate(PASTED) == "You said: **bold** and `code`"
    question = page.locator("#transcript > .question").last
    await question.hover()
    await question.get_by_role("button", name=table()["buttons"]["copy"], exact=True).click()
    await expect(status).to_have_text(table()["copy"]["message"])
    assert await page.evaluate(PASTED) == "**bold** and `code`"


async def test_a_continued_answer_is_copied_whole(new_person: NewPerson) -> None:
    person = await new_person(permissions=["clipboard-read", "clipboard-write"])
    page = person.page
    await page.goto("/")
    answer = await person.ask("say:2001 every:30")
    await answer.until_words(10)
    await person.stop.click()
    await answer.until_status("cancelled")
    begun = (await answer.text()).removesuffix(" …")
    async with page.expect_navigation():
        await part(person, "continue").get_by_role("button").click()
    await person.until_alive()
    await answer.until_status("completed")
    for reloaded in (False, True):
        if reloaded:
            await page.reload()
            await person.until_alive()
        await answer.item.get_by_role("button", name=table()["buttons"]["copy_markdown"]).click()
        await expect(page.locator("#status")).to_have_text(table()["copy"]["markdown"])
        copied = await page.evaluate(PASTED)
        assert copied == await answer.text()
        assert copied.startswith(begun)
        assert len(copied) > len(begun)
