"""The box: drafts that stay, long texts beside it, and how much may still be written."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from playwright.async_api import FilePayload, expect

from chatapp.templatetags.words import table
from tests.browser.conftest import OUTPUT
from tests.chatapp.drawings import png

if TYPE_CHECKING:
    from playwright.async_api import Page

    from tests.browser.conftest import NewPerson, Person

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

PASTE = """([text, files]) => {
  const data = new DataTransfer();
  if (text) data.setData('text/plain', text);
  for (const [name, type, bytes] of files) {
    data.items.add(new File([new Uint8Array(bytes)], name, {type}));
  }
  const event = new ClipboardEvent('paste', {clipboardData: data, bubbles: true, cancelable: true});
  const box = document.getElementById('text');
  if (box.dispatchEvent(event)) box.value += text;
}"""
INSIDE = """part => {
  const [own, whole] = [part, part.closest('.column')].map((it) => it.getBoundingClientRect());
  return own.left >= whole.left && own.right <= whole.right;
}"""
LOG = "\n".join(
    f"2026-11-30 line {n} of a log, with <b>marks</b> and ~~~~ in it" for n in range(4_000)
)
LONG_LINE = "lorem ipsum dolor " * 500


async def paste(
    page: Page, text: str, files: list[tuple[str, str, list[int]]] | None = None
) -> None:
    await page.evaluate(PASTE, [text, files or []])


async def test_a_draft_stays_for_its_chat_through_reloads_and_is_shared_by_tabs(
    person: Person,
) -> None:
    page = person.page
    await page.goto("/")
    await (await person.ask("say:2")).until_status("completed")
    chat = page.url
    await person.box.fill("half a sen")
    other = await person.context.new_page()
    await other.goto(chat)
    twin = other.get_by_role("textbox", name="Message")
    await expect(twin).to_have_value("half a sen")
    await twin.fill("half a sentence")
    await other.close()
    await page.goto("/")
    await person.until_alive()
    await expect(person.box).to_have_value("")
    await person.box.fill("for another one")
    await page.goto(chat)
    await person.until_alive()
    await expect(person.box).to_have_value("half a sentence")
    await person.box.press("Enter")
    await expect(page.locator("#transcript > .question")).to_have_count(2)
    await page.reload()
    await person.until_alive()
    await expect(person.box).to_have_value("")
    await page.goto("/")
    await expect(person.box).to_have_value("for another one")


async def test_a_long_paste_stands_beside_the_box_and_folded_in_the_conversation(
    person: Person,
) -> None:
    page = person.page
    await page.goto("/")
    await person.until_alive()
    await paste(page, "short")
    await expect(page.locator("[data-part=attached] li")).to_have_count(0)
    await person.box.fill("What is this?")
    assert len(LOG) > 200_000
    await paste(page, LOG)
    beside = page.locator("[data-part=attached] li")
    await expect(beside).to_contain_text(f"{len(LOG):,} characters, 4,000 lines")
    await expect(person.box).to_have_value("What is this?")
    await person.shot("attached")
    await page.reload()
    await person.until_alive()
    await expect(beside).to_have_count(1)
    await beside.locator("summary").click()
    await beside.locator("textarea").fill(LONG_LINE)
    await expect(beside).to_contain_text("9,000 characters")
    await person.shot("attached-open")
    await paste(page, LOG[:8_001])
    await beside.nth(1).get_by_role("button", name="Remove").click()
    await person.box.press("Enter")
    folded = page.locator("#transcript > .question .attached")
    await expect(folded).to_have_count(1)
    for _ in ("as it was sent", "as the server shows it"):
        await expect(folded).to_contain_text("Pasted text 1")
        await expect(folded).to_contain_text("9,000 characters")
        await expect(folded.locator("pre")).to_be_hidden()
        assert await folded.evaluate(INSIDE), "a long first line leads out of the column"
        await expect(person.answer.words).to_contain_text("What is this?")
        await page.reload()
    await folded.locator("summary").click()
    assert await folded.locator("pre").text_content() == LONG_LINE
    await expect(person.answer.words).to_contain_text("Attached: Pasted text 1")
    await person.shot("attached-said")


async def test_a_file_of_text_is_attached_and_one_that_is_none_is_not(person: Person) -> None:
    page = person.page
    await page.goto("/")
    await person.until_alive()
    pick = page.locator("[data-part=pick]")
    await pick.set_input_files(
        {"name": "no\u202etes.md\u2066", "mimeType": "text/markdown", "buffer": "# Nötes".encode()}
    )
    await expect(page.locator("[data-part=attached] li")).to_contain_text("notes.md")
    await pick.set_input_files(
        {"name": "\u202ea.zip", "mimeType": "application/zip", "buffer": b"PK\x03\x04\xff\x00"}
    )
    await expect(person.trouble).to_have_text(table()["attached"]["not_text"].format(name="a.zip"))
    item = page.locator("[data-part=attached] li")
    await item.locator("summary").click()
    await item.get_by_role("button", name=table()["attached"]["into"]).click()
    await expect(person.box).to_have_value("# Nötes")
    await expect(item).to_have_count(0)


async def test_near_the_limit_it_is_said_how_much_is_left(person: Person) -> None:
    page = person.page
    await page.goto("/")
    await person.until_alive()
    left = page.locator("[data-part=count]")
    await person.box.fill("x" * 500_000)
    await expect(left).to_be_hidden()
    await person.box.fill("x" * 1_000_000)
    await expect(left).to_have_text(table()["count"]["left"].format(kb=48))
    await person.box.fill("é" * 600_000)
    await expect(left).to_have_text(table()["count"]["over"].format(kb=148))


async def test_the_box_grows_to_two_fifths_of_the_page_and_no_further(person: Person) -> None:
    page = person.page
    await page.goto("/")
    await person.until_alive()
    await person.box.fill("line\n" * 200)
    share = await person.box.evaluate("box => box.getBoundingClientRect().height / innerHeight")
    assert 0.38 < share <= 0.401


async def test_nobody_sees_what_somebody_else_was_writing_at_the_same_browser(
    new_person: NewPerson,
) -> None:
    ann, bob = await new_person(), await new_person()
    await ann.page.goto("/")
    await ann.until_alive()
    await ann.box.fill("a secret")
    cookies = [c for c in await bob.context.cookies() if c.get("name") == "sessionid"]
    await ann.context.add_cookies(cookies)  # type: ignore[arg-type]
    await ann.page.reload()
    await ann.until_alive()
    await expect(ann.box).to_have_value("")


async def test_a_picture_is_made_small_shown_and_sent(person: Person) -> None:
    page = person.page
    await page.goto("/")
    await person.until_alive()
    pick = page.locator("[data-part=pick]")
    photo = FilePayload(name="a.png", mimeType="image/png", buffer=png(3_000, 2_000))
    await pick.set_input_files([photo, photo])
    beside = page.locator("[data-part=pictures] li")
    await expect(beside).to_have_count(2)
    await beside.last.get_by_role("button").click()
    await expect(beside).to_have_count(1)
    broken = FilePayload(name="b.png", mimeType="image/png", buffer=b"no picture")
    await pick.set_input_files([broken])
    await expect(person.trouble).to_have_text(table()["pictures"]["not_taken"].format(name="b.png"))
    await person.shot("picture")
    await person.box.fill("say:3")
    await person.box.press("Enter")
    await person.answer.until_status("completed")
    shown = page.locator("#transcript > .question img")
    for _ in ("as it was sent", "as the server shows it"):
        await expect(shown).to_have_count(1)
        size = "it => it.decode().then(() => [it.naturalWidth, it.naturalHeight])"
        assert await shown.evaluate(size) == [1568, 1045]
        await page.reload()
    await person.shot("picture-said")


async def test_without_scripts_a_picture_is_picked_and_sent(new_person: NewPerson) -> None:
    person = await new_person(java_script_enabled=False)
    await person.page.goto("/")
    photo = FilePayload(name="a.png", mimeType="image/png", buffer=png(30, 20))
    await person.page.locator("[data-part=pick]").set_input_files([photo])
    await person.box.fill("say:3")
    await person.send.click()
    await expect(person.answer.words).to_contain_text("word3")
    shown = person.page.locator("#transcript > .question img")
    await expect(shown).to_have_attribute("width", "30")


async def test_how_the_model_is_asked_is_set_beside_the_box(person: Person) -> None:
    page = person.page
    words = table()["more"]
    await page.goto("/")
    await person.until_alive()
    more = page.locator("[data-part=asking]")
    await more.locator("summary").click()
    await page.get_by_label("System prompt").fill("Be brief.")
    await person.shot("more")
    await page.get_by_label(words["leaving"]).select_option("keep")
    await page.keyboard.press("Escape")
    await expect(page.get_by_label("System prompt")).to_be_hidden()
    await (await person.ask("say:2")).until_status("completed")
    await person.until_alive()
    await more.locator("summary").click()
    await expect(page.get_by_label("System prompt")).to_have_value("Be brief.")
    temperature = page.get_by_label("Temperature")
    await temperature.fill("7")
    await temperature.press("Tab")
    await expect(person.trouble).to_contain_text(words["not_saved"])
    await temperature.fill("0,5")
    async with page.expect_response("**/api/chats/*") as saved:
        await temperature.press("Tab")
    assert (await saved.value).status == 200
    await expect(person.trouble).to_be_hidden()
    await person.shot("more-chat")
    await page.reload()
    await more.locator("summary").click()
    await expect(temperature).to_have_value("0.5")
    chats = await (await person.context.request.get("/api/chats")).json()
    assert [chat["system_prompt"] for chat in chats["data"]] == ["Be brief."]


TWO_MODELS = """async () => {
  const {ModelPicker} = await import(
    performance.getEntriesByType('resource').find(({name}) => /chat\\/picker/.test(name)).name);
  const select = document.createElement('select');
  for (const [name, about] of [['fast', 'reads 8,192 tokens'], ['other', 'sees pictures']]) {
    const option = new Option(name, name);
    option.dataset.about = about;
    select.append(option);
  }
  select.id = 'models';
  document.querySelector('.model').replaceChildren(select);
  new ModelPicker(select, 'Model');
}"""


async def test_a_model_is_picked_by_keyboard_with_what_it_can_do(person: Person) -> None:
    page = person.page
    await page.goto("/")
    await person.until_alive()
    await page.evaluate(TWO_MODELS)
    button = page.get_by_role("button", name="Model: fast")
    await button.press("ArrowDown")
    options = page.get_by_role("listbox", name="Model").locator("[role=option]")
    await expect(options).to_have_text(["fastreads 8,192 tokens", "othersees pictures"])
    await expect(options.first).to_be_focused()
    OUTPUT.mkdir(parents=True, exist_ok=True)
    await page.screenshot(path=OUTPUT / "picker.png")  # a change of its size would close it
    await page.keyboard.press("o")
    await expect(options.last).to_be_focused()
    await page.keyboard.press("Enter")
    await expect(page.locator("#models")).to_have_value("other")
    await expect(page.get_by_role("button", name="Model: other")).to_be_focused()
    await expect(options.first).to_be_hidden()
    await page.get_by_role("button", name="Model: other").click()
    await expect(options.last).to_have_attribute("aria-selected", "true")
    await options.first.click()
    await expect(page.locator("#models")).to_have_value("fast")
    await page.keyboard.press("Enter")
    await page.keyboard.press("Escape")
    await expect(options.first).to_be_hidden()
