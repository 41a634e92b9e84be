"""A page that holds still while it is written, and does not weigh much."""

from __future__ import annotations

import asyncio
import gzip
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from playwright.async_api import expect

from tests.browser.conftest import DESK, PHONE

if TYPE_CHECKING:
    from playwright.async_api import Route

    from tests.browser.conftest import NewPerson, Person

pytestmark = pytest.mark.browser
STATIC = Path(__file__).resolve().parents[2] / "static"
MOST_SHIFT = 0.05
MOST_SCRIPT_BYTES = 150 * 1024
"""Compressed, of all that a page of a chat loads before it needs colours or formulas."""
WATCH = """() => {
    window.moved = [];
    window.written = [];
    const where = (node) => (node?.closest?.('.dock') ? 'dock: ' : '');
    const said = (node) => node?.outerHTML?.slice(0, 80) ?? node?.nodeName;
    const name = ({ node }) => where(node) + said(node);
    const told = (it) => moved.push([it.startTime, it.value, ...it.sources.map(name)]);
    const note = (it) => it.hadRecentInput || told(it);
    const observer = new PerformanceObserver((list) => list.getEntries().forEach(note));
    observer.observe({ type: 'layout-shift' });
}"""
# What grows with a text that is put into the box: no key was pressed, as it is when somebody types.
BEGIN = "() => written.push([performance.now(), Infinity])"
END = """async () => {
    for (let n = 0; n < 2; n += 1) await new Promise(requestAnimationFrame);
    written.at(-1)[1] = performance.now();
}"""
MOVED = "() => moved.filter(([at]) => !written.some(([from, to]) => from <= at && at <= to))"
PROSE = (
    "# Tides and why they come twice a day\n\nThe **moon** pulls at `the sea`.\n\n"
    "1. one\n   - in it\n2. two\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n"
    "```python\ndef tide(hours: int) -> float:\n    return 0.5 * hours\n```\n\nAnd $a^2$ as well."
)
IMPORT = re.compile(r"(?:from|import) '(\.[^']+)'")


async def write(person: Person, text: str) -> None:
    await person.page.evaluate(BEGIN)
    await person.box.fill(text)
    await person.page.evaluate(END)


@pytest.mark.asyncio(loop_scope="session")
@pytest.mark.parametrize("size", [DESK, PHONE], ids=["wide", "narrow"])
async def test_nothing_moves_but_what_is_written(
    new_person: NewPerson, size: dict[str, int]
) -> None:
    person = await new_person(viewport=size)
    await person.page.goto("/")
    await person.ask("say:3")
    await person.answer.until_status("completed")
    await person.until_alive()
    await person.page.evaluate(WATCH)
    for text in (PROSE, "say:300 every:10", "think:20 every:20", "call:20 every:20", "cut:after:9"):
        await write(person, text)
        await person.box.press("Enter")
        await expect(person.box).to_have_value("")
        await expect(person.page.locator("#transcript [data-running]")).to_have_count(
            0, timeout=60_000
        )
    moved = await person.page.evaluate(MOVED)
    assert sum(value for _, value, *_ in moved) <= MOST_SHIFT, moved


@pytest.mark.asyncio(loop_scope="session")
async def test_the_box_is_small_from_the_key_that_sends_not_from_a_late_reply(
    new_person: NewPerson,
) -> None:
    person = await new_person()
    await person.page.goto("/")
    await person.ask("say:3")
    await person.answer.until_status("completed")
    await person.until_alive()
    empty = await person.box.evaluate("box => box.offsetHeight")
    taken = asyncio.Event()

    async def late(route: Route) -> None:
        await taken.wait()
        await route.continue_()

    await person.page.route("**/api/chats/*/messages", late)
    await person.page.evaluate(WATCH)
    await write(person, "say:3\n" * 8)
    assert await person.box.evaluate("box => box.offsetHeight") > 3 * empty
    await person.box.press("Enter")
    await expect(person.page.locator("#composer[data-leaving]")).to_be_visible()
    assert await person.box.evaluate("box => box.offsetHeight") == empty
    await expect(person.box).to_have_value("say:3\n" * 8)
    await person.page.wait_for_timeout(
        700
    )  # after half a second the browser takes no key for a cause
    taken.set()
    await expect(person.box).to_have_value("")
    await person.answer.until_status("completed")
    moved = await person.page.evaluate(MOVED)
    assert "dock: " not in str(moved)
    assert sum(value for _, value, *_ in moved) <= MOST_SHIFT, moved
    assert await person.box.evaluate("box => box.offsetHeight") == empty


def loaded_by(script: Path, seen: set[Path]) -> set[Path]:
    """It, and what it imports at once: an `import()` is for later."""
    if script not in seen:
        seen.add(script)
        for name in IMPORT.findall(script.read_text(encoding="utf-8")):
            loaded_by((script.parent / name).resolve(), seen)
    return seen


def test_the_scripts_of_a_chat_are_small() -> None:
    template = STATIC.parent / "templates"
    tags = "".join((template / name).read_text() for name in ("signed_in.html", "chat/chat.html"))
    scripts: set[Path] = set()
    for name in re.findall(r"<script type=\"module\" src=\"{% static '([^']+)' %}\"", tags):
        loaded_by(STATIC / name, scripts)
    assert STATIC / "chat" / "page.js" in scripts
    assert STATIC / "vendor" / "markdown.js" in scripts
    weight = sum(len(gzip.compress(path.read_bytes())) for path in scripts)
    assert weight <= MOST_SCRIPT_BYTES, f"{weight / 1024:.1f} KiB in {len(scripts)} files"
