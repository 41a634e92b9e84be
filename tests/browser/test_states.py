"""Every state of an answer looks like none of the others, in light and dark; pictures of each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from playwright.async_api import expect

from chatapp.templatetags.words import table
from tests.browser.conftest import DESK, OUTPUT, PHONE, end_words

if TYPE_CHECKING:
    from tests.browser.conftest import Person

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]
ENDS = {
    "incomplete": "max_tokens",
    "failed": "truncated",
    "cancelled": "user",
    "interrupted": "worker_lost",
}
BECOME = """([status, label, happened]) => {
    const item = [...document.querySelectorAll('.answer')].at(-1);
    item.dataset.status = status;
    const part = (name) => item.querySelector(`[data-part=${name}]`);
    part('end').hidden = false;
    part('label').textContent = label;
    part('sentence').textContent = happened;
    part('icon').setAttribute('href', `#icon-${status}`);
    const { backgroundColor, borderStyle, borderColor } = getComputedStyle(part('end'));
    return [backgroundColor, borderStyle, borderColor, getComputedStyle(part('label')).color];
}"""


async def pictures(person: Person, name: str) -> None:
    OUTPUT.mkdir(parents=True, exist_ok=True)
    page = person.page
    for scheme in ("light", "dark"):
        await page.emulate_media(color_scheme=scheme)
        for size in (DESK, PHONE):
            await page.set_viewport_size(size)  # type: ignore[arg-type]  # a TypedDict
            await page.screenshot(path=OUTPUT / f"state-{name}-{scheme}-{size['width']}.png")
    await page.set_viewport_size(DESK)  # type: ignore[arg-type]
    await page.emulate_media(color_scheme="light")


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_each_end_looks_like_none_of_the_others(person: Person, scheme: Any) -> None:
    page = person.page
    await page.emulate_media(color_scheme=scheme)
    await page.goto("/")
    await person.ask("say:30")
    await person.answer.until_status("completed")
    looks = {}
    for status, reason in ENDS.items():
        told = end_words(status, reason)
        looks[status] = await page.evaluate(BECOME, [status, told["label"], told["happened"]])
        for size in (DESK, PHONE):
            await page.set_viewport_size(size)  # type: ignore[arg-type]
            name = f"end-{status}-{scheme}-{size['width']}.png"
            await person.answer.item.screenshot(path=OUTPUT / name)
    colours = [(ground, ink) for ground, _, _, ink in looks.values()]
    assert len(set(colours)) == len(ENDS)
    lines = [style for _, style, _, _ in looks.values()]
    assert len({*lines}) >= 3, "not by colour alone"
    icons = {f"#icon-{status}" for status in ENDS}
    found = await page.eval_on_selector_all("symbol", "all => all.map(it => '#' + it.id)")
    assert icons <= {*found}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("thinking", "hang"),
        ("writing", "say:260 every:30"),
        ("reasoning", "think:260 every:30"),
        ("tool-call", "call:260 every:30"),
        ("reading", "read:7 hang"),
    ],
)
async def test_pictures_of_what_runs(person: Person, name: str, text: str) -> None:
    await person.page.goto("/")
    answer = await person.ask(text)
    shown = answer.item.locator(":is([data-part=state], [data-part=reasoning-label]):visible")
    await expect(shown.first).not_to_be_empty()
    if name in ("writing", "reasoning", "tool-call"):
        await expect(answer.item.locator("article")).to_contain_text("9", timeout=20_000)
    await pictures(person, name)
    await person.box.fill("and then?")
    await pictures(person, f"{name}-typing")
    await person.stop.click()
    await answer.until_status("cancelled")


async def test_pictures_of_a_connection_that_is_lost(person: Person) -> None:
    await person.page.goto("/")
    answer = await person.ask("say:600 every:30")
    await answer.until_words(30)
    await person.context.set_offline(True)
    await expect(answer.state).to_have_text(table()["connection"]["offline"])
    await pictures(person, "offline")
    await person.context.set_offline(False)


async def test_pictures_of_languages_that_run_the_other_way(person: Person) -> None:
    """Each block reads in the direction of its first letter, with its marks at that side."""
    page = person.page
    await page.goto("/")
    await person.until_alive()
    hebrew = "שלום, מה שלומך היום?"
    await person.box.fill(f"{hebrew}\n\n- ראשון\n- שני\n\nAnd then English.\n\n> ציטוט")
    await person.box.press("Enter")
    await person.answer.until_status("completed")
    items = person.answer.words.locator("ul")
    assert await items.evaluate("it => getComputedStyle(it).direction") == "rtl"
    assert await person.answer.words.locator("blockquote").evaluate("it => it.matches(':dir(rtl)')")
    await pictures(person, "right-to-left")
