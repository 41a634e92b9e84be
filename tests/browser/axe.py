"""What axe-core says of a page as it stands.

The policy of the site is switched off for these visits (`visitor`), since axe brings scripts of its
own; all other tests of this folder keep it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from axe_playwright_python.async_playwright import Axe

if TYPE_CHECKING:
    from playwright.async_api import Page

BAD = {"serious", "critical"}


async def bad(page: Page, where: str, within: str | None = None) -> list[str]:
    """What axe finds serious or critical; `within`: in one part of the page alone."""
    # An answer that has ended is there before its styles are.
    await page.wait_for_load_state("load")
    results = await Axe().run(page, context=within, options={"resultTypes": ["violations"]})
    violations: list[dict[str, Any]] = results.response["violations"]
    return [
        f"{where}: {found['id']}: {node['target']} {node['html'][:120]} {node['failureSummary']}"
        for found in violations
        if found["impact"] in BAD
        for node in found["nodes"]
    ]
