"""The languages of the site; their sentences are in chatapp/locale (DECISIONS.md says how).

A name is in its own language: whoever looks for it cannot read the others.
"""

from __future__ import annotations

from typing import Final

SOURCE: Final = "en"
"""Of templates, of static/chat/words.json and of sentences in Python; also of what has no
translation yet."""
SEPARATORS: Final = {SOURCE: (",", "."), "de": (".", ","), "ar": (",", ".")}
"""What groups the digits of a number, and what begins its fraction, as in CLDR with the digits 0 to
9. A language that is not named writes them like the source."""
LANGUAGES: Final = [(SOURCE, "English"), ("de", "Deutsch"), ("ar", "العربية")]
