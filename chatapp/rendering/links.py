"""Where a link of an answer may lead, and when its text is not to be trusted.

The twin of static/chat/markdown/links.js. Addresses come from the parser, which has turned hosts
into ASCII (`xn--…` for foreign letters) and escaped what is none.
"""

from __future__ import annotations

import re
from typing import Final

_WEB: Final = re.compile(
    r"https?://([0-9a-z](?:[0-9a-z.-]*[0-9a-z])?\.?|\[[0-9a-f:.]+\])(?::[0-9]{1,5})?(?:[/?#]|\Z)",
    re.I | re.A,
)
"""A plain host: no user name before it, no escapes in it, which browsers would read differently."""
_MAIL: Final = re.compile(r"mailto:([^?]+)", re.I | re.A)
_ADDRESS: Final = re.compile(r"://|@|[^ \t\n.]\.[^ \t\n.]{2}")
"""Looks like an address itself."""
_SCHEME: Final = re.compile(r"https?://|mailto:")


def is_link(href: str) -> bool:
    """Whether it may be one at all."""
    return bool(_WEB.match(href) or _MAIL.match(href))


def host_of(href: str) -> str:
    """Who answers at this address, as it is shown."""
    found = _WEB.match(href) or _MAIL.match(href)
    return found[1].lower() if found else ""


def misleads(text: str, href: str) -> bool:
    """Whether the text names, or seems to name, another place than the one it leads to."""
    host = host_of(href)
    if "xn--" in host:
        return True
    if not _ADDRESS.search(text):
        return False
    said = text.strip(" \t\n").lower()
    if scheme := _SCHEME.match(said):
        said = said[scheme.end() :]
    said, bare = said.removeprefix("www."), host.removeprefix("www.")
    if not said.startswith(bare):
        return True
    rest = said[len(bare) :]
    return rest != "" and rest[0] not in "/:?#"
