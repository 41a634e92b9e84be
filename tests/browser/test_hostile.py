"""Answers written to do harm: nothing runs, nothing is fetched, and the page stays quick.

Under the site's own policy, whose violations are counted too: what is made here does not even try.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
import pytest_asyncio

from chatapp.rendering import to_html
from chatapp.settings import CONTENT_SECURITY_POLICY
from tests.browser.test_prose import FIXTURES, ROOT

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from playwright.async_api import Browser, Page, Route

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

POLICY = "; ".join(
    " ".join([name, *values]) for name, values in CONTENT_SECURITY_POLICY["DIRECTIVES"].items()
)
SLOW_MS = 4_000
"""A generous bound for a busy machine; what grows with the square takes minutes."""
WATCH = "addEventListener('securitypolicyviolation', e => report(e.violatedDirective))"


def payloads() -> list[str]:
    text = (FIXTURES / "hostile.md").read_text(encoding="utf-8")
    return [part for part in re.split(r"^===.*\n", text, flags=re.M)[1:] if part]


class Ground:
    """A page under the site's policy, which notes each request and complaint."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.html = ""
        self.requests: list[str] = []
        self.complaints: list[str] = []

    async def serve(self, route: Route) -> None:
        url = route.request.url
        path = url.partition("http://prose.test")[2]
        if path == "/":
            body = f"<!doctype html><meta charset=utf-8><body>{self.html}</body>"
            headers = {"Content-Security-Policy": POLICY, "Content-Type": "text/html"}
            await route.fulfill(body=body, headers=headers)
        elif re.fullmatch(r"/(static/(chat|vendor)|tests/browser)/[\w./-]+\.js", path):
            await route.fulfill(path=ROOT / path[1:], content_type="text/javascript")
        else:
            self.requests.append(url)
            await route.abort()

    def violated(self, directive: str) -> None:
        self.complaints.append(directive)

    async def open(self, html: str = "") -> None:
        self.html = html
        await self.page.goto("http://prose.test/")
        await self.page.evaluate(
            "import('/tests/browser/prose_ground.js').then(it => window.ground = it)"
        )

    async def check(self) -> None:
        assert await self.page.evaluate("window.ran") is None
        assert self.requests == []
        assert self.complaints == []


@pytest_asyncio.fixture(loop_scope="session")
async def ground(chromium_browser: Browser) -> AsyncIterator[Ground]:
    page = await chromium_browser.new_page()
    ground = Ground(page)
    page.on("console", lambda message: ground.complaints.append(message.text))
    page.on("pageerror", lambda error: ground.complaints.append(str(error)))
    page.on("dialog", lambda dialog: ground.complaints.append(dialog.message))
    await page.expose_function("report", ground.violated)
    await page.add_init_script(WATCH)
    await page.route("**/*", ground.serve)
    yield ground
    await page.close()


async def test_there_are_enough_of_them() -> None:
    assert len(payloads()) >= 150


async def test_what_is_streamed_does_nothing(ground: Ground) -> None:
    await ground.open()
    for text in payloads():
        for step in (1 if len(text) < 300 else 37, 1_000_000):
            seen: Any = await ground.page.evaluate("([t, n]) => ground.stream(t, n)", [text, step])
            assert seen["found"] == [], text
    await ground.check()


async def test_what_the_server_renders_does_nothing(ground: Ground) -> None:
    html = "".join(f"<section>{to_html(text)}</section>" for text in payloads())
    await ground.open(f"<main>{html}</main>")
    found = await ground.page.evaluate(
        "[...document.querySelectorAll('section')].flatMap(it => ground.strange(it))"
    )
    assert found == []
    sections = await ground.page.locator("main > section").count()
    assert sections == len(payloads()), "one of them closed an element that is ours"
    await ground.check()


async def test_the_watch_sees_what_it_is_for(ground: Ground) -> None:
    await ground.open("<main><img src=https://evil.example/p onerror=window.ran=1></main>")
    assert await ground.page.evaluate("ground.strange(document.querySelector('main'))") != []
    await ground.page.wait_for_function("document.images[0].complete")
    assert ground.complaints != []


LONG = {
    "a line of 10 MB": ("x" * 10_000_000, 500_000),
    "backticks": ("`" * 100_000, 5_000),
    "a fence that never ends": ("```\n" + "x" * 1_000_000, 20_000),
    "10,000 quotes in one another": (">" * 10_000 + " a", 500),
    "10,000 lists in one another": ("- " * 10_000 + "a", 1_000),
    "brackets": ("[" * 50_000 + "a" + "]" * 50_000, 5_000),
    "pictures": ("![" * 30_000, 5_000),
    "stars": ("*a **a " * 10_000, 5_000),
    "formulas that never end": ("$a " * 30_000, 5_000),
    "parentheses of formulas": ("\\(a " * 30_000, 5_000),
    "a formula of lines": ("$$\n" * 5_000, 500),
    "angles": ("<a" * 50_000, 5_000),
    "entities": ("&" * 100_000, 5_000),
    "blanks": ("a" + " " * 200_000 + "b", 10_000),
    "cells": ("|" * 2_000 + "\n" + "|-" * 2_000 + "\n" + "|\n" * 500, 500),
    "definitions": ("".join(f"[{n}]: https://e.org/{n}\n" for n in range(5_000)), 5_000),
}


@pytest.mark.parametrize("name", LONG)
async def test_the_page_stays_quick(ground: Ground, name: str) -> None:
    text, step = LONG[name]
    await ground.open()
    seen: Any = await ground.page.evaluate("([t, n]) => ground.slowest(t, n)", [text, step])
    assert seen["worst"] < SLOW_MS
    await ground.check()
