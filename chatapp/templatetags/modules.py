"""What a page's scripts import is named in its head: the browser fetches it all at once.

Else it learns of each level of imports when the one above has come: seven round trips one after the
other, on a phone's network a second and more, before anything can be pressed.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Final

from django import template
from django.conf import settings
from django.templatetags.static import static
from django.utils.html import format_html_join

if TYPE_CHECKING:
    from pathlib import Path

    from django.utils.safestring import SafeString

register = template.Library()

_IMPORT: Final = re.compile(r"^(?:import|export)\b[^;'\"]*'(\.[^']+)'", re.M)
"""Of a static import: what `import()` names is for later."""


@register.simple_tag
def imports_of(*names: str) -> SafeString:
    """`{% imports_of "chat/page.js" %}`: a preload for each module below these."""
    links = [(static(name),) for name in imported_by(names)]
    return format_html_join("\n  ", '<link rel="modulepreload" href="{}">', links)


@cache  # part of the program, like a template
def imported_by(names: tuple[str, ...]) -> list[str]:
    """Below static/, each once, in the order in which a browser would find them."""
    root: Path = settings.BASE_DIR / "static"
    found = list(names)
    for name in found:  # grows on the way
        for target in _IMPORT.findall((root / name).read_text(encoding="utf-8")):
            path = (
                (root / PurePosixPath(name).parent / target).resolve().relative_to(root.resolve())
            )
            if path.as_posix() not in found:
                found.append(path.as_posix())
    return found[len(names) :]
