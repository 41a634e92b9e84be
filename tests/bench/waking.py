"""How soon a page that woke up has the first event of its stream again, in milliseconds.

Part of `make bench-page` (at a quarter of the processor's speed) and of tests/browser/test_waking.py.
From the event that wakes the page (thawed, online again, in sight after a sleep, back from the
browser's cache) to the first event of an answer on a connection that was asked for after it.
"""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin

from tests.bench import chat_page
from tests.chromium import freeze, real_browser
from tests.site import Site

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from playwright.async_api import Page

WAYS = ("thawed", "online", "in sight", "back")
SLEPT_MS = 60_000
"""The page's clock after a sleep: far beyond the silence that a connection is trusted for."""

LISTEN = """
window.woken = { at: NaN, first: NaN };
{
    const ask = window.fetch;
    window.fetch = async (input, init) => {
        const begun = performance.now();
        const response = await ask(input, init);
        if (!String(input).includes('/events') || !response.body) return response;
        const text = new TextDecoder();
        const heard = new TransformStream({
            transform(chunk, out) {
                const { at, first } = window.woken;
                const event = /text\\.delta|event: snapshot/.test(text.decode(chunk, { stream: true }));
                if (event && begun >= at && Number.isNaN(first)) window.woken.first = performance.now();
                out.enqueue(chunk);
            },
        });
        return new Response(response.body.pipeThrough(heard), response);
    };
    const woke = () => {
        if (!document.hidden && Number.isNaN(window.woken.at)) window.woken.at = performance.now();
    };
    document.addEventListener('resume', woke);
    document.addEventListener('visibilitychange', woke);
    window.addEventListener('online', woke);
    window.addEventListener('pageshow', woke);
}
"""
"""For `add_init_script`: notes when the page woke, and when it heard of an answer after that."""

SLEEP = f"""() => {{
    const real = Date.now;
    Date.now = () => real() + {SLEPT_MS};
    document.dispatchEvent(new Event('visibilitychange'));
}}"""
ARM = "() => { window.woken = { at: NaN, first: NaN }; }"
WOKEN = "() => window.woken.first - window.woken.at || null"


async def measure(
    page: Page, runs: int, *, asleep: Callable[[], Awaitable[object]]
) -> dict[str, list[float]]:
    """Milliseconds of each waking, by the way it happened; the page follows an answer that goes on.

    Args:
        page: one of a real browser (tests/chromium.py) that was opened with LISTEN.
        runs: how often in each way.
        asleep: returns when it has slept long enough.
    """
    other = await page.context.new_page()
    await page.bring_to_front()
    home = page.url

    async def wake(how: str) -> None:
        if how == "thawed":
            await freeze(page, behind=other)
            await asleep()
            await page.bring_to_front()
        elif how == "online":
            await page.context.set_offline(True)
            await asleep()
            await page.context.set_offline(False)
        elif how == "in sight":
            await page.evaluate(SLEEP)
        else:
            await page.goto(urljoin(home, "/account/"))
            await asleep()
            await page.go_back(wait_until="commit")

    seen: dict[str, list[float]] = {how: [] for how in WAYS}
    for how in WAYS:
        for _ in range(runs):
            await page.evaluate(ARM)
            await wake(how)
            found: Any = await page.wait_for_function(WOKEN, timeout=30_000)
            seen[how].append(round(await found.json_value(), 1))
    await other.close()
    return seen


async def measure_site(chromium: str, runs: int) -> dict[str, list[float]]:
    """The same on a site and in a browser of its own."""
    with tempfile.TemporaryDirectory(prefix="unbroken-page-") as folder:
        async with Site(Path(folder), workers=1) as site, real_browser(chromium) as context:
            code = chat_page.MAKE.format(messages=0, text="")
            session, chat = site.manage("shell", "--no-imports", "-c", code).split()[-2:]
            cookie = {"name": "sessionid", "value": session, "url": site.urls[0]}
            await context.add_cookies([cookie])  # type: ignore[list-item]  # a TypedDict
            await context.add_init_script(LISTEN)
            page = await context.new_page()
            await page.goto(f"{site.urls[0]}/chats/{chat}/")
            await page.locator("#composer[data-alive]").wait_for()
            devtools = await context.new_cdp_session(page)
            await devtools.send("Emulation.setCPUThrottlingRate", {"rate": chat_page.SLOWED})
            await page.fill("#text", "say:9000 every:20")
            await page.press("#text", "Enter")
            await page.locator("text=word5").last.wait_for(timeout=60_000)
            return await measure(page, runs, asleep=lambda: asyncio.sleep(1))


def verdict(seen: dict[str, list[float]]) -> list[tuple[str, float, float]]:
    return [(f"attached again, {how}, worst ms", max(times), 1_000) for how, times in seen.items()]


if __name__ == "__main__":
    import json
    import shutil

    print(json.dumps(asyncio.run(measure_site(shutil.which("chromium") or "chromium", 5))))
