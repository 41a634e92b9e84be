"""Answers as prose: the same tree from the server, from a text read at once, and from a stream."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import pytest_asyncio

from chatapp.rendering import to_html

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from playwright.async_api import Browser, Page, Route

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

ROOT = Path(__file__).resolve().parent.parent.parent
FIXTURES = ROOT / "tests" / "fixtures" / "markdown"
SPLITS = 10_000


def answers() -> list[str]:
    """Documents of our own, separated by lines that begin with ===."""
    text = (FIXTURES / "answers.md").read_text(encoding="utf-8")
    return re.split(r"^===.*\n", text, flags=re.M)[1:]


def documents() -> list[str]:
    examples: list[str] = json.loads((FIXTURES / "commonmark.json").read_text(encoding="utf-8"))
    return answers() + examples


@pytest_asyncio.fixture(loop_scope="session")
async def ground(chromium_browser: Browser) -> AsyncIterator[Page]:
    """An empty page with our modules and tests/browser/prose_ground.js as `ground`."""
    page = await chromium_browser.new_page()
    complaints: list[str] = []
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))

    async def serve(route: Route) -> None:
        path = route.request.url.partition("prose.test")[2]
        if path == "/":
            await route.fulfill(body="<!doctype html><body></body>", content_type="text/html")
        else:
            await route.fulfill(path=ROOT / path.lstrip("/"), content_type="text/javascript")

    await page.route("**/*", serve)
    await page.goto("http://prose.test/")
    await page.evaluate("import('/tests/browser/prose_ground.js').then(it => window.ground = it)")
    yield page
    await page.close()
    assert complaints == [], "the browser complained"


async def test_the_server_and_the_page_make_the_same_tree(ground: Page) -> None:
    texts = documents()
    htmls = [to_html(text) for text in texts]
    differ = await ground.evaluate("([t, h]) => ground.againstServer(t, h)", [texts, htmls])
    assert differ == []


async def test_a_stream_cut_anywhere_ends_as_the_text_read_at_once(ground: Page) -> None:
    texts = documents()
    times = -(-SPLITS // len(texts))
    result: Any = await ground.evaluate("([t, n]) => ground.streamed(t, 7, n)", [texts, times])
    assert result["streams"] >= SPLITS
    assert result["differ"] == []


async def test_what_a_line_has_closed_is_never_touched_again(ground: Page) -> None:
    """But by a link definition that comes later: CommonMark lets it reach back."""
    blocks = 0
    for text in answers():
        if re.search(r"^ {0,3}\[[^\]]+\]:", text, re.M):
            continue
        seen: Any = await ground.evaluate("t => ground.touched(t, 1)", text)
        assert seen["changes"] == [], text
        blocks += seen["blocks"]
    assert blocks > 500


async def test_a_row_or_a_point_costs_what_the_first_ones_did(ground: Page) -> None:
    """Ten times as many cost about ten times as much, not a hundred times."""
    row, point = "| 1 | `a` | **b** |\n", "- a *b*\n  - c\n"
    for text, part in (("| a | b | c |\n|--|--|--|\n", row), ("", point)):
        few = await ground.evaluate("t => ground.made(t, 3)", f"{text}{part * 10}\nEnd.\n")
        many = await ground.evaluate("t => ground.made(t, 3)", f"{text}{part * 100}\nEnd.\n")
        assert many < 14 * few, part


async def test_code_has_colours_by_any_name_of_its_language(ground: Page) -> None:
    """Also what is written within another language; an unknown one holds nothing up."""
    lines = {
        "mermaid": "graph TD",
        "html": "<script>let a = 1</script>",
        "sh": "echo 'a'",
        "yml": "a: 1",
        "py": "def f(): pass",
    }
    seen: Any = await ground.evaluate("lines => ground.coloured(lines)", lines)
    assert seen.pop("mermaid") == ""
    assert all(seen.values()), seen
    assert "k" in seen["html"].split(), "a script within a page"


async def test_a_formula_that_is_asked_for_twice_is_typeset_from_what_was_written(
    ground: Page,
) -> None:
    """A page that is loaded while an answer is written showed `E=mc2E=mc^2`."""
    text = "So $E=mc^2$.\n\n$$\na^2\n$$\n\nEnd.\n"
    assert await ground.evaluate("text => ground.typesetTwice(text)", text) == ["E=mc^2", "a^2"]


async def test_code_and_addresses_in_a_line_of_another_direction_are_read_in_their_own(
    ground: Page,
) -> None:
    await ground.add_style_tag(path=ROOT / "static" / "chat" / "prose.css")
    arabic = "استعمل {} هنا"
    seen = "text => ground.seenAs(...text)"
    code = [arabic.format("`f(x)[0]()`"), "code"]
    assert await ground.evaluate(seen, code) == "f(x)[0]()"
    address = [arabic.format("<https://a.example/b/>"), "a"]
    assert await ground.evaluate(seen, address) == "https://a.example/b/"
    await ground.evaluate("document.documentElement.dir = 'rtl'")
    assert await ground.evaluate("text => ground.indents(text)", "```\nif x:\n  y\n```\n") == "  "


async def test_a_column_stands_at_one_side_whichever_way_its_cells_are_read(ground: Page) -> None:
    """A figure stands under its Arabic head, an Arabic word under its English one."""
    await ground.add_style_tag(path=ROOT / "static" / "chat" / "prose.css")
    edges = "text => ground.edges(text)"
    arabic = await ground.evaluate(
        edges, "| الاسم الطويل جدا | القيمة الكبيرة |\n|---|---:|\n| 1 | 2 |\n"
    )
    assert arabic[1] == ["right", "right"]
    english = await ground.evaluate(edges, "| A long name | A value |\n|---|---:|\n| سلام | 2 |\n")
    assert english[1] == ["left", "right"]
