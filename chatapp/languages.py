"""The languages of the site; their sentences are in chatapp/locale (DECISIONS.md says how).

A name is in its own language: whoever looks for it cannot read the others.
"""

from __future__ import annotations

from typing import Final

SOURCE: Final = "en"
"""Of templates, of static/chat/words.json and of sentences in Python; also of what has no
translation yet."""
LANGUAGES: Final = [(SOURCE, "English"), ("de", "Deutsch"), ("ar", "العربية")]
