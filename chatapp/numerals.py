"""Numbers as the reader's language writes them; the twin of static/chat/numerals.js.

Digits are 0 to 9 in every language, as in what models write, in code and in identifiers beside
them; what differs is what groups them and begins a fraction (chatapp/languages.py).
"""

from __future__ import annotations

from django.utils.functional import lazy
from django.utils.translation import get_language

from chatapp.languages import SEPARATORS, SOURCE


def grouped(number: int) -> str:
    """1234567 as `1,234,567`, in the language of whoever is answered."""
    return f"{number:,}".replace(",", _separators()[0])


def tenths(count: int) -> str:
    """So many tenths: 12345 as `1,234.5`."""
    return f"{grouped(count // 10)}{_separators()[1]}{count % 10}"


def plain(number: float) -> str:
    """As short as it is exact enough to be read: 0.15 as `0.15`."""
    return f"{number:g}".replace(".", _separators()[1])


grouped_later = lazy(grouped, str)
"""For sentences that are made before it is known who reads them."""


def _separators() -> tuple[str, str]:
    return SEPARATORS.get(get_language() or SOURCE, SEPARATORS[SOURCE])
