"""A page that holds still while it is written, and does not weigh much."""

from __future__ import annotations

import gzip
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from playwright.async_api import expect

from tests.browser.conftest import DESK, PHONE

if TYPE_CHECKING:
    from tests.browser.conftest import NewPerson

pytestmark = pytest.mark.browser
STATIC = Path(__file__).resolve().parents[2] / "static"
MOST_SHIFT = 0.05
MOST_SCRIPT_BYTES = 150 * 1024
"""Compressed, of all that a page of a chat loads before it needs colours or formulas."""
WATCH = """() => {
    window.moved = [];
    const name = ({ node }) => node?.outerHTML?.slice(0, 80) ?? node?.nodeName;
    // The box gets smaller when its text is sent: the person's own doing, however late that is.
    const inDock = ({ node }) => node?.closest?.('.dock');
    const own = (it) => it.hadRecentInput || it.sources.every(inDock);
    const note = (it) => own(it) || moved.push([it.value, ...it.sources.map(name)]);
    const observer = new PerformanceObserver((list) => list.getEntries().forEach(note));
    observer.observe({ type: 'layout-shift' });
}"""
PROSE = (
    "# Tides and why they come twice a day\n\nThe **moon** pulls at `the sea`.\n\n"
    "1. one\n   - in it\n2. two\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n"
    "```python\ndef tide(hours: int) -> float:\n    return 0.5 * hours\n```\n\nAnd $a^2$ as well."
)
IMPORT = re.compile(r"(?:from|import) '(\.[^']+)'")


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
        await person.box.fill(text)
        await person.box.press("Enter")
        await expect(person.box).to_have_value("")
        await expect(person.page.locator("#transcript [data-running]")).to_have_count(
            0, timeout=60_000
        )
    moved = await person.page.evaluate("moved")
    assert sum(value for value, *_ in moved) <= MOST_SHIFT, moved


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
