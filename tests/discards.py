"""Tabs that Chromium discards, as it does when memory is short.

A tab that somebody's tools are attached to is never discarded, and neither is one in which
somebody has typed. So Playwright has let go of the browser when `discard` is called, and the page
that does it (chrome://discards) is spoken to over the bare protocol.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import aiohttp

from tests.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

PAGE = "chrome://discards/"
URGENT = """((url) => {
  const within = ({ shadowRoot: shadow }) => (shadow ? all(shadow) : []);
  const all = (root) =>
    [...root.querySelectorAll('*')].flatMap((one) => [one, ...within(one)]);
  const rows = all(document).filter((one) => one.matches('tr:has(.tab-url-cell)'));
  const ours = rows.find((one) => one.querySelector('.tab-url-cell').textContent.trim() === url);
  const links = [...(ours?.querySelectorAll('div') ?? [])];
  links.find((one) => one.textContent.trim() === '[Urgent Discard]')?.click();
  return [rows.length > 0, ours?.textContent ?? ''];
})"""
"""Also says what stands in the tab's row."""
DISCARDED = "doesn't have a main frame"

Ask = Callable[..., Awaitable[Any]]


async def discard(address: str, url: str) -> None:
    """Discard the hidden tab that shows this; returns when it is gone from memory."""
    async with _devtools(address) as ask:
        target = (await ask("Target.createTarget", {"url": PAGE}))["targetId"]
        attach = {"targetId": target, "flatten": True}
        session = (await ask("Target.attachToTarget", attach))["sessionId"]
        press = {"expression": f"{URGENT}({json.dumps(url)})", "returnByValue": True}
        was_there = False

        async def gone() -> bool:
            nonlocal was_there
            shown, row = (await ask("Runtime.evaluate", press, session))["result"]["value"]
            was_there = was_there or row != ""
            return shown and was_there and (row == "" or DISCARDED in row)

        await wait_until(gone, f"{url} to be discarded", timeout=30)


async def look_at(address: str, url: str) -> None:
    """Somebody opens the tab that shows this."""
    async with _devtools(address) as ask:
        found = (await ask("Target.getTargets", {}))["targetInfos"]
        tabs = {one["url"]: one["targetId"] for one in found}
        await ask("Target.activateTarget", {"targetId": tabs[url]})
        await ask("Target.closeTarget", {"targetId": tabs[PAGE]})


@asynccontextmanager
async def _devtools(address: str) -> AsyncIterator[Ask]:
    async with aiohttp.ClientSession() as http, http.ws_connect(address, max_msg_size=0) as socket:
        count = 0

        async def ask(method: str, params: dict[str, Any], session: str | None = None) -> Any:
            nonlocal count
            count += 1
            message = {"id": count, "method": method, "params": params}
            await socket.send_json(message | ({"sessionId": session} if session else {}))
            while (reply := await socket.receive_json(timeout=30)).get("id") != count:
                pass
            assert "error" not in reply, reply
            return reply["result"]

        yield ask
