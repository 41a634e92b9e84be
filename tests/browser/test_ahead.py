"""Messages sent while an answer is being written: seen as they wait, begun in turn, removable."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from playwright.async_api import expect

from chatapp.templatetags.words import table

if TYPE_CHECKING:
    from tests.browser.conftest import Person

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]


async def open_chat(person: Person, double_text: str) -> None:
    """A new chat's page. The setting is the API's; the page obeys it."""
    page = person.page
    await page.goto("/")
    made = await page.evaluate(
        """async (double_text) => {
          const token = document.querySelector('[name=csrfmiddlewaretoken]').value;
          const headers = {'X-CSRFToken': token, 'Content-Type': 'application/json'};
          const body = JSON.stringify({double_text});
          const reply = await fetch('/api/chats', {method: 'POST', headers, body});
          return await reply.json();
        }""",
        double_text,
    )
    await page.goto(f"/chats/{made['id']}/")
    await person.until_alive()


async def test_a_queued_message_is_seen_to_wait_and_then_answered(person: Person) -> None:
    page = person.page
    await open_chat(person, "queue")
    await (await person.ask("say:80 every:50")).until_words(3)
    await expect(person.send).to_be_visible()
    await expect(person.stop).to_be_visible()
    items = page.locator("#transcript > .answer")
    await person.ask("say:4")
    await person.ask("say:5")
    await expect(items).to_have_count(3)
    waiting = items.nth(1)
    await expect(waiting.locator("[data-part=state]")).to_have_text(table()["state"]["queued"])
    await expect(waiting.get_by_role("button", name="Remove")).to_be_visible()

    await page.reload()
    await person.until_alive()
    await expect(items.nth(0)).to_have_attribute("data-running", "")
    await items.nth(1).get_by_role("button", name="Remove").click()
    await expect(items.nth(1)).to_have_attribute("data-status", "cancelled")

    await person.stop.click()
    await expect(items.nth(0)).to_have_attribute("data-status", "cancelled")
    await expect(items.nth(2)).to_have_attribute("data-status", "completed", timeout=20_000)
    text = items.nth(2).locator("[data-part=text]")
    await expect(text).to_have_text("word1 word2 word3 word4 word5")
    await expect(items.nth(2).get_by_role("button", name="Remove")).to_be_hidden()
    await expect(person.stop).to_be_hidden()


async def test_an_interrupting_message_takes_the_place_of_the_answer(person: Person) -> None:
    page = person.page
    await open_chat(person, "interrupt")
    await (await person.ask("say:2000 every:50")).until_words(3)
    await person.ask("say:4")
    items = page.locator("#transcript > .answer")
    await expect(items.nth(0)).to_have_attribute("data-status", "cancelled", timeout=20_000)
    await expect(items.nth(0).locator("[data-part=end]")).to_contain_text("a newer one")
    await expect(items.nth(1)).to_have_attribute("data-status", "completed", timeout=20_000)
    await expect(person.stop).to_be_hidden()


async def test_what_waits_can_be_said_otherwise(person: Person) -> None:
    page = person.page
    await page.goto("/")
    await (await person.ask("say:2003 every:50")).until_words(3)
    await person.ask("say:4")
    question = page.locator("#transcript > .question").nth(1)
    await question.get_by_text("Edit", exact=True).click()
    await expect(question.get_by_text(table()["rewrite"]["about"])).to_be_visible()
    await person.shot("waiting-edited")
    await question.get_by_label("Your message, edited").fill("say:6")
    await question.get_by_role("button", name=table()["buttons"]["rewrite"]).click()
    await expect(question.locator("[data-part=question]")).to_have_text("say:6")
    await person.until_alive()
    await person.stop.click()
    await person.answer.until_status("completed")
    assert await person.answer.text() == "word1 word2 word3 word4 word5 word6"


async def test_the_rule_for_the_next_message_is_chosen_at_the_box_and_kept(person: Person) -> None:
    page = person.page
    await open_chat(person, "reject")
    await (await person.ask("say:2004 every:50")).until_words(3)
    await expect(person.send).to_be_hidden()
    rule = page.get_by_label(table()["next"]["label"])
    await rule.select_option("interrupt")
    await expect(person.send).to_be_visible()
    await person.shot("next-interrupts")
    await person.ask("say:4")
    first = page.locator("#transcript > .answer").nth(0)
    await expect(first).to_have_attribute("data-status", "cancelled", timeout=20_000)
    await person.answer.until_status("completed")
    await expect(rule).to_be_hidden()
    await page.reload()
    await expect(page.locator("[name=double_text]")).to_have_value("interrupt")
