"""What the tests of the scripts take for granted about the server's templates."""

from __future__ import annotations

import re
from pathlib import Path

_DOM = (Path(__file__).parent / "js" / "dom.js").read_text(encoding="utf-8")
_LIST = re.search(r"ANSWER_PARTS = \[(.*?)\];", _DOM, re.S)
assert _LIST is not None

ANSWER_PARTS = frozenset(re.findall(r"'([\w-]+)'", _LIST[1]))
"""The `data-part` names of an answer, as tests/js/dom.js builds one."""
