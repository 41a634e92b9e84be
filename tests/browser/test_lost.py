"""What a person sees when parts of the server die, refuse, or are away."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from playwright.async_api import expect

from chatapp.templatetags.words import table, trouble
from tests.browser.conftest import PASSWORD, end_words, stored
from tests.site import LEASE_S, Proc
from tests.waiting import wait_until

if TYPE_CHECKING:
    from tests.browser.conftest import Person

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]


async def test_a_killed_worker_leaves_an_answer_marked_interrupted_and_the_chat_usable(
    person: Person,
) -> None:
    await person.page.goto("/")
    answer = await person.ask("say:3000 every:30")
    shown = await answer.until_words(15)
    person.site.workers.pop().kill()
    person.site.start_worker()
    await answer.until_status("interrupted", timeout_s=LEASE_S + 5)
    told = end_words("interrupted", "worker_lost")
    await expect(answer.end).to_contain_text(f"{told['label']} {told['happened']}")
    await expect(answer.end).to_contain_text(table()["kept"])
    assert (await answer.text()).startswith(shown)
    await person.shot("interrupted")
    again = await person.ask("say:3")
    await again.until_status("completed")
    assert await again.text() == "word1 word2 word3"


@pytest.mark.parametrize(
    ("said", "status", "reason", "kept", "retry"),
    [
        ("cut:after:12", "failed", "truncated", True, True),
        ("fail:429", "failed", "rate_limit", False, True),
        ("fail:401", "failed", "authentication", False, False),
        ("say:12000", "incomplete", "log_limit", True, False),
    ],
)
async def test_an_end_that_is_not_whole_says_what_it_is(
    person: Person, said: str, status: str, reason: str, kept: bool, retry: bool
) -> None:
    await person.page.goto("/")
    answer = await person.ask(said)
    await answer.until_status(status)
    told = end_words(status, reason)
    again = answer.item.get_by_role("button", name=table()["buttons"]["retry"])
    for _ in ("as it came", "after a reload"):
        await expect(answer.end).to_contain_text(f"{told['label']} {told['happened']}")
        await expect(answer.end).to_contain_text(table()["kept" if kept else "nothing"])
        await expect(answer.end).to_contain_text(told["next"])
        await expect(again).to_be_visible(visible=retry)
        assert ("word1" in await answer.text()) is kept
        await person.page.reload()
    await person.page.locator("#scroller").evaluate("it => it.scrollTop = it.scrollHeight")
    await person.shot(f"{status}-{reason}")


async def test_trying_again_keeps_the_words_of_the_first_try(person: Person) -> None:
    await person.page.goto("/")
    answer = await person.ask("cut:after:5 every:10")
    await answer.until_status("failed")
    first = await answer.id()
    await answer.item.get_by_role("button", name=table()["buttons"]["retry"]).click()
    await expect(answer.item).not_to_have_attribute("data-answer", first)
    await answer.until_status("failed")
    await person.page.get_by_role("button", name="Previous version").click()
    await expect(answer.item).to_have_attribute("data-answer", first)
    await expect(answer.words).to_contain_text("word5")
    await person.shot("tried-again")


async def test_a_send_while_redis_is_away_keeps_the_text_and_says_so(person: Person) -> None:
    await person.page.goto("/")
    answer = await person.ask("say:2")
    await answer.until_status("completed")
    valkey = person.site.valkey

    async def away() -> bool | None:
        return (await person.context.request.get("/readyz")).status == 503

    valkey.pause()
    try:
        assert await wait_until(away, "the site to notice that Redis is away", timeout=10)
        await person.box.fill("must not be lost")
        await person.box.press("Enter")
        await expect(person.trouble).to_have_text(trouble("send", 503))
        await expect(person.box).to_have_value("must not be lost")
        await expect(person.box).to_be_focused()
        await expect(person.page.locator("#transcript > .question")).to_have_count(1)
        await person.shot("send-refused")
    finally:
        valkey.resume()
    await person.box.press("Enter")
    await expect(person.page.locator("#transcript > .question")).to_have_count(2)
    await expect(person.trouble).to_be_hidden()
    await answer.until_status("completed")
    assert await answer.text() == "You said: must not be lost"


async def test_a_send_without_a_network_waits_and_is_sent_once_when_it_is_back(
    person: Person,
) -> None:
    page = person.page
    await page.goto("/")
    await (await person.ask("say:2")).until_status("completed")
    await person.until_alive()
    unsent = page.locator("#unsent li")
    await person.context.set_offline(True)
    for text in ("say:4", "not this one", "say:5"):
        await person.box.fill(text)
        await person.box.press("Enter")
        await expect(unsent.last).to_contain_text(text)
    await expect(person.box).to_have_value("")
    await expect(unsent).to_have_count(3)
    await expect(unsent.first).to_contain_text(table()["unsent"]["network"])
    await person.shot("unsent")
    await unsent.nth(1).get_by_role("button", name=table()["unsent"]["back"]).click()
    await expect(person.box).to_have_value("not this one")
    await person.box.fill("")
    await person.context.set_offline(False)
    await expect(unsent).to_have_count(0)
    await expect(page.locator("#transcript > .question [data-part=question]")).to_have_text(
        ["say:2", "say:4", "say:5"]
    )
    await person.answer.until_status("completed")
    await page.reload()
    await expect(page.locator("#transcript > .question")).to_have_count(3)


async def test_a_stop_that_failed_is_not_spoken_of_once_the_answer_has_ended(
    person: Person,
) -> None:
    await person.page.goto("/")
    answer = await person.ask("say:70 every:40")
    await person.until_alive()
    await answer.until_words(5)
    await person.page.route("**/cancel", lambda route: route.abort())
    await person.stop.click()
    await expect(person.trouble).to_contain_text(table()["stop"]["network"]["happened"])
    await answer.until_status("completed")
    await expect(person.trouble).to_be_hidden()


async def test_an_edit_that_is_sent_offline_stays_where_it_is(person: Person) -> None:
    page = person.page
    await page.goto("/")
    await (await person.ask("say:2")).until_status("completed")
    await person.until_alive()
    edit = page.locator("#transcript > .question .edit")
    await edit.locator("summary").click()
    await edit.get_by_role("textbox").fill("say:3")
    await person.context.set_offline(True)
    await page.wait_for_function("() => !navigator.onLine")
    send = edit.get_by_role("button", name=table()["buttons"]["send_edited"])
    await send.click()
    await expect(person.trouble).to_have_text(table()["branches"]["offline"])
    await expect(edit.get_by_role("textbox")).to_have_value("say:3")
    await person.context.set_offline(False)
    await page.wait_for_function("() => navigator.onLine")
    await send.click()
    await expect(person.answer.words).to_have_text("word1 word2 word3")


async def test_what_waits_for_the_network_survives_the_page_and_begins_its_chat(
    person: Person,
) -> None:
    page = person.page
    await page.goto("/")
    await person.until_alive()
    await page.route("**/api/chats", lambda route: route.abort())
    await person.box.fill("say:6")
    await person.box.press("Enter")
    await expect(page.locator("#unsent li")).to_contain_text("say:6")
    await page.goto("/account/")
    await page.unroute("**/api/chats")
    await page.goto("/")
    await person.answer.until_status("completed")
    assert await person.answer.text() == "word1 word2 word3 word4 word5 word6"
    await expect(page.locator("#unsent li")).to_have_count(0)


async def test_a_session_that_was_ended_stops_reading_and_keeps_what_was_read(
    person: Person,
) -> None:
    await person.page.goto("/")
    answer = await person.ask("say:400 every:40")
    shown = await answer.until_words(8)
    other = await person.context.new_page()
    await other.goto("/")
    await other.get_by_role("button", name="Sign out").click()
    await expect(other.get_by_role("heading", name="Sign in")).to_be_visible()
    await expect(answer.state).to_have_text(table()["connection"]["401"])
    assert (await answer.text()).startswith(shown)
    await expect(answer.item).to_have_attribute("data-unfollowed", "")
    await person.shot("signed-out")
    await person.box.fill("and now?")
    await person.box.press("Enter")
    await expect(person.trouble).to_contain_text(table()["send"]["401"]["happened"])
    await expect(person.box).to_have_value("and now?")

    async with person.context.expect_page() as opened:
        await person.page.get_by_role("link", name=table()["send"]["sign_in"]).click()
    entrance = await opened.value
    await entrance.get_by_label("Username").fill(person.name)
    await entrance.get_by_label("Password").fill(PASSWORD)
    await entrance.get_by_role("button", name="Sign in").click()
    await expect(entrance.get_by_role("textbox", name="Message")).to_be_visible()
    await person.box.press("Enter")
    await expect(person.trouble).to_be_hidden()
    questions = person.page.locator("#transcript > .question [data-part=question]")
    await expect(questions.last).to_have_text("and now?")


async def test_a_web_process_that_is_killed_is_a_pause(person: Person) -> None:
    await person.page.goto("/")
    answer = await person.ask("say:200 every:40")
    shown = await answer.until_words(8)
    site = person.site
    web = site.webs[0]
    web.kill()
    await expect(answer.state).to_have_text(table()["connection"]["waiting"])
    assert (await answer.text()).startswith(shown)
    await person.shot("reconnecting")
    # The same command: at the same address.
    argv = [str(arg) for arg in web.popen.args]  # type: ignore[union-attr]
    site.webs[0] = Proc("web0-again", argv, site.env, site.folder / "web0-again.log")
    await site.until_ready(site.urls[0])
    await answer.until_status("completed", timeout_s=30)
    assert (await answer.text()).endswith("word199 word200")


async def test_leaving_the_site_stops_an_answer_that_nobody_reads(person: Person) -> None:
    await person.page.goto("/")
    answer = await person.ask("say:3200 every:30")
    await answer.until_words(5)
    rid = await answer.id()
    await person.page.goto("about:blank")

    body = await until_over(person, rid)
    assert (body["status"], body["reason"]) == ("cancelled", "abandoned")


async def test_another_page_of_the_site_keeps_the_answer_alive(person: Person) -> None:
    await person.page.goto("/")
    answer = await person.ask("say:230 every:40")
    await answer.until_words(5)
    rid = await answer.id()
    await person.page.get_by_role("link", name="Account").click()
    await expect(person.page.get_by_role("heading", name="Your account")).to_be_visible()

    # Longer than the patience after a leave, which a reload or a link is not.
    assert (await until_over(person, rid))["status"] == "completed"


async def until_over(person: Person, response_id: str) -> dict[str, Any]:
    async def look() -> dict[str, Any] | None:
        body = await stored(person, response_id)
        return body if body["text_sha256"] else None

    return await wait_until(look, "the answer to end", timeout=20)
