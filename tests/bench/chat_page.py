"""What a chat of 200 messages weighs and how soon it can be used, on a processor at a quarter.

Part of `make bench-page`: a real site, its page in Chromium. Interactive: from the click until the
composer has its scripts. Layout shift: of an answer of 300 words that is written below the 200.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from playwright.async_api import Browser

from tests.site import Site

MESSAGES = 200
SLOWED = 4
MAKE = """
from django.conf import settings
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
from django.contrib.sessions.backends.db import SessionStore
from django.utils import timezone
from chatapp.models import Chat, Message, Response, User
from relay import Snapshot, Status, new_response_id
user = User.objects.create(username="reader")
user.set_unusable_password()
user.save()
session = SessionStore()
session[SESSION_KEY] = str(user.pk)
session[BACKEND_SESSION_KEY] = settings.AUTHENTICATION_BACKENDS[0]
session[HASH_SESSION_KEY] = user.get_session_auth_hash()
session.create()
now = timezone.now()
chat = Chat.objects.create(user=user, title="long", model="scripted", updated_at=now)
text = {text!r}
parent = None
for n in range({messages}):
    response = None
    if n % 2:
        rid = new_response_id(1)
        snapshot = Snapshot(id=rid, status=Status.COMPLETED, model="scripted", text=text, text_sha256="x", seq=9, epoch=1)
        response = Response.objects.create(
            id=rid, user=user, chat=chat, model="scripted", status="completed", created_at=now, ended_at=now,
            fold=snapshot.to_json().decode(), request="{{}}", request_hash="x")
    parent = Message.objects.create(
        chat=chat, parent=parent, position=n + 1, response=response,
        role="assistant" if n % 2 else "user", text=text if n % 2 else f"Question {{n}}?")
chat.current = parent
chat.save()
print(session.session_key, chat.pk)
"""
WATCH = """() => {
    window.shift = 0;
    const add = (it) => it.hadRecentInput || (window.shift += it.value);
    const observer = new PerformanceObserver((list) => list.getEntries().forEach(add));
    observer.observe({ type: 'layout-shift' });
}"""
ALIVE = "() => document.querySelector('#composer')?.hasAttribute('data-alive') && performance.now()"
SCRIPTS = """() => performance.getEntriesByType('resource')
    .filter((it) => it.name.endsWith('.js')).map((it) => it.name)"""


async def measure(browser: Browser, text: str, runs: int) -> dict[str, float]:
    with tempfile.TemporaryDirectory(prefix="unbroken-page-") as folder:
        async with Site(Path(folder), workers=1) as site:
            code = MAKE.format(messages=MESSAGES, text=text)
            session, chat = site.manage("shell", "--no-imports", "-c", code).split()[-2:]
            context = await browser.new_context(
                base_url=site.urls[0], viewport={"width": 1280, "height": 860}
            )
            cookie = {"name": "sessionid", "value": session, "url": site.urls[0]}
            await context.add_cookies([cookie])  # type: ignore[list-item]  # a TypedDict
            page = await context.new_page()
            cdp = await context.new_cdp_session(page)
            await cdp.send("Emulation.setCPUThrottlingRate", {"rate": SLOWED})
            interactive_ms = []
            for _ in range(runs + 1):
                await page.goto(f"/chats/{chat}/", wait_until="commit")
                alive = await page.wait_for_function(ALIVE, timeout=60_000)
                interactive_ms.append(await alive.json_value())
            shown = await page.locator("#transcript > .turn").count()
            scripts = await page.evaluate(SCRIPTS)
            await page.wait_for_timeout(1_500)  # colours and formulas of what is in sight
            await page.evaluate(WATCH)
            await page.fill("#text", "say:300 every:10")
            await page.press("#text", "Enter")
            last = page.locator("#transcript > .answer").last
            await last.locator("text=word300").wait_for(timeout=60_000)
            shift = await page.evaluate("shift")
            await context.close()
    return {
        "messages_shown": shown,
        # The first one made the HTML that is kept, and filled the browser's cache.
        "interactive_ms": round(min(interactive_ms[1:])),
        "interactive_first_ms": round(interactive_ms[0]),
        "scripts": len(scripts),
        "layout_shift": round(shift, 4),
    }


def verdict(seen: dict[str, float]) -> list[tuple[str, float, float]]:
    return [
        ("chat of 200 messages interactive, ms", seen["interactive_ms"], 1_500),
        ("layout shift while an answer is written", seen["layout_shift"], 0.05),
    ]


if __name__ == "__main__":
    import asyncio
    import shutil

    from playwright.async_api import async_playwright

    async def alone() -> None:
        async with async_playwright() as playwright:
            path = shutil.which("chromium")
            browser = await playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
            text = "# Title\n\nSome **words** and `code`.\n\n```python\nx = 1\n```\n" * 3
            print(json.dumps(await measure(browser, text, 3)))
            await browser.close()

    asyncio.run(alone())
