"""What is to be pressed is large enough for a finger, and for a pointer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.browser.conftest import DESK, PHONE

if TYPE_CHECKING:
    from tests.browser.conftest import NewPerson

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]
# Links within a sentence are as high as their line (WCAG 2.5.8 leaves them out); a label that
# belongs to a field is part of what can be pressed.
SMALL = """(least) => [...document.querySelectorAll('a, button, summary, select, input, textarea')]
    .filter((it) => it.checkVisibility({ visibilityProperty: true, opacityProperty: true }))
    .filter((it) => !it.closest('.prose, .unseen, p') && !it.matches('.skip'))
    .map((it) => [it, [it, ...(it.labels ?? [])].map((part) => part.getBoundingClientRect())])
    .map(([it, boxes]) => [it, boxes.sort((one, other) => other.height - one.height)[0]])
    .filter(([, box]) => box.width > 0 && (box.height < least - 0.5 || box.width < least - 0.5))
    .map(([it, box]) => [Math.round(box.width), Math.round(box.height), it.outerHTML.slice(0, 120)])
    .map((found) => found.join(' '))"""


@pytest.mark.parametrize(
    ("least", "options"),
    [(24, {"viewport": DESK}), (44, {"viewport": PHONE, "has_touch": True, "is_mobile": True})],
    ids=["pointer", "finger"],
)
async def test_what_is_pressed_is_large_enough(
    new_person: NewPerson, least: int, options: dict[str, object]
) -> None:
    person = await new_person(**options)
    page = person.page
    found = []
    await page.goto("/")
    await person.until_alive()
    found += await page.evaluate(SMALL, least)
    await person.box.fill("think:5")
    await person.send.click()
    await person.answer.until_status("completed")
    item = person.answer.item
    await item.locator("[data-part=reasoning] > summary").click()
    await item.locator("[data-part=figures] > summary").click()
    found += await page.evaluate(SMALL, least)
    await page.locator("#transcript > .question").last.locator(".edit > summary").click()
    found += await page.evaluate(SMALL, least)
    await page.evaluate("document.querySelector('#side').showPopover?.()")
    found += await page.evaluate(SMALL, least)
    for path in ("/account/", f"{page.url}settings", "/chats/"):
        await page.goto(path)
        found += await page.evaluate(SMALL, least)
    assert not found, "\n".join(sorted({*found}))
