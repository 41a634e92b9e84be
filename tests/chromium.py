"""A Chromium as a person starts it: its tabs hide, sleep and wake.

Playwright tells each page that it launches to behave as if it had the focus. Such a page is never
hidden, and `Page.setWebLifecycleState` does nothing at all to it: it goes on while a test believes
that it is frozen. Here only the process is ours, and Playwright speaks to it without its defaults.
"""

from __future__ import annotations

import asyncio
import os
import signal
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from playwright.async_api import async_playwright

from chatapp.management.child import die_with

if TYPE_CHECKING:
    from playwright.async_api import BrowserContext, Page

START_S = 30
FLAGS = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
]


@asynccontextmanager
async def real_browser(chromium: str) -> AsyncIterator[BrowserContext]:
    """A profile of its own, with one window; gone with its process afterwards."""
    async with (
        profile() as folder,
        process(chromium, folder) as address,
        driven(address) as context,
    ):
        yield context


@asynccontextmanager
async def profile() -> AsyncIterator[Path]:
    """Where a browser keeps what outlives its process; gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="chromium-", ignore_cleanup_errors=True) as folder:
        # Shows chrome://discards, which is asked to discard a tab.
        (Path(folder) / "Local State").write_text('{"internal_only_uis_enabled": true}')
        yield Path(folder)


@asynccontextmanager
async def process(chromium: str, folder: Path, *flags: str) -> AsyncIterator[str]:
    """One that runs; the address that its devices are spoken to at."""
    process = await asyncio.create_subprocess_exec(
        *(chromium, *FLAGS, f"--user-data-dir={folder}", *flags),
        *("--window-size=1280,900", "--remote-debugging-port=0", "about:blank"),
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
        preexec_fn=die_with(os.getpid()),
    )
    assert process.stderr is not None
    try:
        async with asyncio.timeout(START_S):
            address = ""
            while not address:
                line = (await process.stderr.readline()).decode(errors="replace")
                assert line, "Chromium ended before it listened"
                _, _, address = line.partition("DevTools listening on ")
        yield address.strip()
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()


@asynccontextmanager
async def driven(address: str) -> AsyncIterator[BrowserContext]:
    """While entered, Playwright speaks to it; its tabs stay when it is left."""
    async with async_playwright() as playwright:
        browser = await playwright.chromium.connect_over_cdp(address, no_defaults=True)
        yield browser.contexts[0]
        await browser.close()


async def freeze(page: Page, *, behind: Page) -> None:
    """As browsers do with a tab that nobody looks at; `page.bring_to_front()` thaws it.

    Args:
        behind: the tab that is looked at meanwhile. A tab that stays the window's own is hidden
            as well, but bringing it to the front then wakes nothing.
    """
    await behind.bring_to_front()
    devtools = await page.context.new_cdp_session(page)
    await devtools.send("Page.setWebLifecycleState", {"state": "frozen"})
    await devtools.detach()
