"""Ask, see words appear, lose things on the way, and miss nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from playwright.async_api import expect

from chatapp.templatetags.words import table
from tests.browser.conftest import PASSWORD, end_words, stored, until_upstream

if TYPE_CHECKING:
    from tests.browser.conftest import NewPerson, Person

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]


def words(count: int) -> str:
    return " ".join(f"word{n}" for n in range(1, count + 1))


async def test_sign_in_ask_and_watch_the_words_appear(new_person: NewPerson) -> None:
    person = await new_person(signed_in=False)
    page = person.page
    await page.goto("/")
    await expect(page).to_have_url("/account/login/?next=/")
    await person.shot("sign-in")
    await page.get_by_label("Username").fill(person.name)
    await page.get_by_label("Password").fill(PASSWORD)
    await page.get_by_role("button", name="Sign in").click()
    await expect(person.box).to_be_focused()
    await person.shot("home")

    answer = await person.ask("say:60 every:50")
    await expect(page).to_have_title("say:60 every:50 · Unbroken")
    first = await answer.until_words(5)
    await expect(answer.item).to_have_attribute("data-running", "")
    await expect(person.stop).to_be_visible()
    await expect(person.send).to_be_visible()
    await person.shot("writing")
    later = await answer.until_words(30)
    assert later.startswith(first)
    assert len(later) > len(first)

    await answer.until_status("completed")
    assert await answer.text() == words(60)
    await expect(answer.end).to_be_hidden()
    await expect(answer.state).to_be_hidden()
    await expect(person.send).to_be_visible()
    await expect(page.get_by_role("status")).to_have_text(
        table()["announce"]["completed"].format(words=60)
    )
    await expect(person.box).to_be_focused()
    await expect(person.box).to_have_value("")
    await person.shot("completed")


async def test_a_second_message_needs_no_page(person: Person) -> None:
    await person.page.goto("/")
    await person.ask("say:3")
    await person.answer.until_status("completed")
    await person.page.evaluate("window.stillTheSamePage = true")
    answer = await person.ask("How about <b>this</b>?")
    await answer.until_status("completed")
    assert await answer.text() == "You said: How about <b>this</b>?"
    assert await person.page.evaluate("window.stillTheSamePage")
    await person.page.reload()
    assert await person.answer.text() == "You said: How about <b>this</b>?"
    assert await person.page.locator("#transcript > li").count() == 4


async def test_a_reload_in_mid_stream_only_adds_to_what_was_shown(person: Person) -> None:
    await person.page.goto("/")
    answer = await person.ask("say:120 every:40")
    shown = await answer.until_words(10)
    for count in (30, 60):
        await person.page.reload()
        again = await answer.text()
        assert again.startswith(shown), "the server's page already has what was on the screen"
        shown = await answer.until_words(count)
    await answer.until_status("completed")
    assert await answer.text() == words(120)
    whole = await stored(person, await answer.id())
    assert whole["text"] == words(120)


async def test_offline_and_back_loses_nothing_and_says_so(person: Person) -> None:
    await person.page.goto("/")
    answer = await person.ask("say:150 every:40")
    shown = await answer.until_words(10)
    await person.context.set_offline(True)
    await expect(answer.state).to_have_text(table()["connection"]["offline"])
    assert (await answer.text()).startswith(shown)
    await expect(answer.item).to_have_attribute("data-running", "")
    await person.shot("offline")
    await person.context.set_offline(False)
    await expect(answer.state).not_to_have_text(table()["connection"]["offline"])
    await answer.until_status("completed")
    assert await answer.text() == words(150)


async def test_a_page_that_comes_back_from_the_cache_goes_on(sleeper: Person) -> None:
    answer = await sleeper.ask("say:150 every:40")
    shown = await answer.until_words(10)
    await sleeper.page.evaluate("window.stillTheSamePage = true")
    await sleeper.page.get_by_role("link", name="Account").click()
    await expect(sleeper.page.get_by_role("heading", name="Your account")).to_be_visible()
    await sleeper.page.go_back(wait_until="commit")  # no load follows
    assert await sleeper.page.evaluate("window.stillTheSamePage"), "it was loaded anew"
    assert (await answer.text()).startswith(shown)
    await answer.until_status("completed")
    assert await answer.text() == words(150)


async def test_two_windows_see_the_same(person: Person) -> None:
    await person.page.goto("/")
    answer = await person.ask("say:80 every:40")
    await answer.until_words(5)
    other = await person.context.new_page()
    await other.goto(person.page.url)
    await answer.until_status("completed")
    twin = other.locator("#transcript > .answer")
    await expect(twin).to_have_attribute("data-status", "completed")
    assert await twin.locator("[data-part=text]").text_content() == words(80)


async def test_stop_keeps_the_words_and_closes_the_upstream(person: Person) -> None:
    await person.page.goto("/")
    said = "say:2001 every:30"
    answer = await person.ask(said)
    await answer.until_words(10)
    await person.stop.click()
    await answer.until_status("cancelled")
    told = end_words("cancelled", "user")
    await expect(answer.end).to_contain_text(f"{told['label']} {told['happened']}")
    await expect(answer.end).to_contain_text(table()["kept"])
    await expect(person.box).to_be_focused()
    await expect(person.send).to_be_visible()
    await until_upstream(person.site, said, "closed")
    text = await answer.text()
    assert text.startswith(words(10))
    await person.shot("stopped")
    await person.page.reload()
    assert await answer.text() == text, "the same characters as on the screen at the stop"
    await expect(answer.end).to_contain_text(told["happened"])


async def test_escape_stops_too_and_a_reload_does_not_disarm_it(person: Person) -> None:
    await person.page.goto("/")
    answer = await person.ask("say:2002 every:30")
    await answer.until_words(5)
    await person.page.reload()
    await answer.until_words(12)
    await person.box.press("Escape")
    await answer.until_status("cancelled")
    await until_upstream(person.site, "say:2002", "closed")


async def test_stop_before_the_first_word(person: Person) -> None:
    await person.page.goto("/")
    answer = await person.ask("hang")
    await expect(answer.state).to_have_text(table()["state"]["in_progress"])
    await person.shot("thinking")
    await person.stop.click()
    await answer.until_status("cancelled")
    await expect(answer.end).to_contain_text(table()["nothing"])


async def test_what_is_typed_while_an_answer_runs_stays_in_the_box(person: Person) -> None:
    await person.page.goto("/")
    answer = await person.ask("say:150 every:30")
    await answer.until_words(3)
    await person.until_alive()
    await person.box.fill("my next question")
    await person.page.reload()
    await expect(person.box).to_have_value("my next question")
    await answer.until_status("completed")
    await expect(person.box).to_have_value("my next question")
    await person.box.press("Enter")
    await expect(person.page.locator("#transcript > .question")).to_have_count(2)
    await expect(person.box).to_have_value("")


async def test_shift_enter_makes_a_line_and_paragraphs_stay_paragraphs(person: Person) -> None:
    await person.page.goto("/")
    for line in ("one", "", "two"):
        await person.box.press_sequentially(line)
        await person.box.press("Shift+Enter")
    await person.box.press("Enter")
    question = person.page.locator("#transcript > .question p")
    await expect(question).to_have_text(["one", "two"])
    await person.answer.until_status("completed")
    assert await person.answer.words.locator("p").all_text_contents() == ["You said: one", "two"]
