"""The list of chats, and a long conversation: with scripts, and at a phone's width."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from playwright.async_api import expect

from chatapp.templatetags.words import table
from tests.browser.conftest import OUTPUT, PHONE

if TYPE_CHECKING:
    from playwright.async_api import Locator

    from tests.browser.conftest import NewPerson, Person

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

SENTENCE = "The moon pulls the water, and the water follows it around the earth, turn {n} of them. "


def fill(person: Person, title: str, turns: int, others: int) -> str:
    """A long chat and many short ones; the id of the long one."""
    code = f"""
from datetime import timedelta
from django.utils import timezone
from chatapp.models import Chat, Message, Response, User
from relay import Snapshot, new_response_id
user = User.objects.get(username={person.name!r})
now = timezone.now()
for n in range({others}):
    Chat.objects.create(user=user, model="scripted", title=f"Notes on tides, part {{n}}",
        updated_at=now - timedelta(days=n + 1))
chat = Chat.objects.create(user=user, model="scripted", title={title!r}, updated_at=now)
last = None
for n in range({turns}):
    text = {SENTENCE!r}.format(n=n) * (1 if n % 2 == 0 else 5)
    response = None
    if n % 2:
        fold = Snapshot(status="completed", text=text, model="scripted").to_json().decode()
        response = Response.objects.create(id=new_response_id(), user=user, chat=chat,
            model="scripted", status="completed", created_at=now, ended_at=now, fold=fold)
    last = Message.objects.create(chat=chat, role=("user", "assistant")[n % 2], text=text,
        position=n + 1, parent=last, response=response)
chat.current = last
chat.save()
print(chat.pk)
"""
    return person.site.manage("shell", "--no-imports", "-c", code).strip().split()[-1]


def item(person: Person, title: str) -> Locator:
    return person.page.locator("#side [data-chat]").filter(has_text=title)


async def open_menu(person: Person, title: str) -> Locator:
    await item(person, title).hover()
    await item(person, title).get_by_label("Options of").click()
    menu = person.page.locator("#chat-menu")
    await expect(menu).to_be_visible()
    return menu


async def test_chats_are_found_renamed_pinned_deleted_and_brought_back(person: Person) -> None:
    chat = fill(person, "How do tides work?", 4, 60)
    page = person.page
    await page.goto(f"/chats/{chat}/")
    await person.until_alive()
    await expect(page.locator("#side [data-chat]")).to_have_count(50)
    await page.get_by_role("link", name=table()["chats"]["more"]).click()
    await expect(page.locator("#side [data-chat]")).to_have_count(61)
    menu = await open_menu(person, "How do tides work?")
    await person.shot("chat-menu")
    await menu.get_by_role("button", name="Rename").click()
    await page.keyboard.type("The moon and the sea")
    await page.keyboard.press("Enter")
    await expect(item(person, "The moon and the sea")).to_be_visible()
    await expect(page).to_have_title("The moon and the sea · Unbroken")
    menu = await open_menu(person, "part 7")
    await menu.get_by_role("button", name="Pin", exact=True).click()
    await expect(page.locator("#side [data-chat]").first).to_contain_text("part 7")
    search = page.get_by_role("searchbox")
    await search.fill("follows turn")
    found = page.locator("#side .found li")
    await expect(found).to_have_count(1)
    await expect(found.locator("mark").first).to_have_text("follows")
    await person.shot("chats-found")
    await search.fill("")
    await expect(page.locator("#side [data-chat]")).to_have_count(51)
    await (await open_menu(person, "part 44")).get_by_role("button", name="Delete").click()
    undo = page.locator("[data-part=undo]")
    await expect(undo).to_contain_text("part 44")
    await person.shot("chat-deleted")
    await page.reload()
    await undo.get_by_role("button", name=table()["chats"]["undo"]).click()
    await expect(item(person, "part 44").locator("a[aria-current]")).to_be_visible()


async def test_a_name_that_a_model_finds_is_shown_without_loading_the_page_anew(
    person: Person,
) -> None:
    page = person.page
    await page.goto("/")
    answer = await person.ask("say:60 every:40")
    await answer.until_status("completed")
    await expect(item(person, "say:60")).to_be_visible()
    code = f"""
from django.utils import timezone
from chatapp.models import Chat
mine = Chat.objects.filter(user__username={person.name!r})
mine.update(title="Three words", titled_by="model", changed_at=timezone.now())
"""
    person.site.manage("shell", "--no-imports", "-c", code)
    await expect(item(person, "Three words")).to_be_visible(timeout=30_000)
    await expect(page).to_have_title("Three words · Unbroken")


async def test_earlier_messages_come_by_scrolling_and_nothing_jumps(person: Person) -> None:
    chat = fill(person, "A long talk", 101, 3)
    page = person.page
    await page.goto(f"/chats/{chat}/")
    await person.until_alive()
    turns = page.locator("#transcript > .turn")
    await expect(turns).to_have_count(40)
    scroller = page.locator("#scroller")
    end = "it => it.scrollHeight - it.scrollTop - it.clientHeight"
    assert await scroller.evaluate(end) < 5, "a chat opens at its end"
    handle = await turns.first.element_handle()
    assert handle is not None
    await scroller.hover()
    await page.mouse.wheel(0, -20_000)
    await expect(turns).to_have_count(80)
    top = await handle.evaluate("it => it.getBoundingClientRect().top")
    assert abs(top) < 120, "the first of what was there is where it was: at the top"
    # Not by the mouse: on its way there the link comes near and does its work by itself.
    await page.get_by_role("link", name=table()["chats"]["older"]).dispatch_event("click")
    await expect(turns).to_have_count(101)
    await expect(page.get_by_role("link", name=table()["chats"]["older"])).to_be_hidden()
    await person.shot("long-chat")


async def test_pages_about_chats_on_a_desk_and_a_phone(new_person: NewPerson) -> None:
    for scheme in ("light", "dark"):
        person = await new_person(color_scheme=scheme)
        chat = fill(person, "How do tides work?", 50, 12)
        page = person.page
        await page.goto(f"/chats/{chat}/settings")
        await person.shot(f"chat-settings-{scheme}")
        await page.goto("/chats/?q=moon")
        await person.shot(f"chats-search-{scheme}")
        await page.goto(f"/chats/{chat}/?before=20")
        await person.shot(f"chat-part-{scheme}")
        await page.set_viewport_size(PHONE)  # type: ignore[arg-type]  # a TypedDict
        await page.goto(f"/chats/{chat}/")
        await page.get_by_role("button", name="Chats").click()
        await expect(page.get_by_role("searchbox")).to_be_visible()
        await page.screenshot(path=OUTPUT / f"chats-side-{scheme}-390.png")
        assert await page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
