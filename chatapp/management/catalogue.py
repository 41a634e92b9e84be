"""What people read: found in the sources, kept per language in chatapp/locale, and compiled.

GNU gettext is on few machines, so that none of it is needed: Django says what is to be translated
in a template (`templatize`), Babel in Python, and static/chat/words.json is nothing else. What has
no translation yet is shown in English; no sentence is ever guessed from a similar one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any, Final

from babel.messages.catalog import Catalog, Message
from babel.messages.extract import DEFAULT_KEYWORDS, extract
from babel.messages.mofile import read_mo, write_mo
from babel.messages.pofile import read_po, write_po
from django.utils.translation.template import templatize

from chatapp.languages import LANGUAGES, SOURCE

ROOT: Final = Path(__file__).resolve().parents[2]
LOCALE: Final = ROOT / "chatapp" / "locale"
TRANSLATED: Final = [code for code, _ in LANGUAGES if code != SOURCE]
WORDS: Final = Path("static", "chat", "words.json")
KEYWORDS: Final[Any] = {**DEFAULT_KEYWORDS, "gettext_lazy": None, "ngettext_lazy": (1, 2)}
PLACEHOLDER: Final = re.compile(r"\{\w+\}|%\(\w+\)s")
TAG: Final = re.compile(r"</?\w+[^>]*>")


def in_sources(root: Path = ROOT) -> Catalog:
    """Every text that is marked for translation, in the order of files."""
    catalog = Catalog()
    for path in sorted((root / "templates").rglob("*.*")):
        _add(catalog, path.relative_to(root), _of_template(path))
    for path in sorted((root / "chatapp").rglob("*.py")):
        _add(catalog, path.relative_to(root), _of_python(path.read_bytes()))
    words = json.loads((root / WORDS).read_text(encoding="utf-8"))
    _add(catalog, WORDS, _of_words({**words, "language": ""}))
    return catalog


def path_of(language: str, suffix: str = "po") -> Path:
    return LOCALE / language / "LC_MESSAGES" / f"django.{suffix}"


def read(language: str) -> Catalog:
    """What is translated; a language without a file has nothing yet."""
    path = path_of(language)
    if not path.exists():
        head = "# What people read in Unbroken. `make messages` keeps it; write between the quotes."
        return Catalog(language, header_comment=head, project="Unbroken", fuzzy=False)
    with path.open("rb") as file:
        return read_po(file, locale=language, charset="utf-8")


def renew(language: str, sources: Catalog) -> Catalog:
    """Read it, bring it to what is in the sources, and write it back, compiled as well."""
    catalog = read(language)
    sources.creation_date = catalog.creation_date  # else the file changes with every run
    catalog.update(sources, no_fuzzy_matching=True)
    path = path_of(language)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        write_po(file, catalog, width=100, ignore_obsolete=True, include_lineno=False)
    catalog = read(language)
    with path_of(language, "mo").open("wb") as file:
        write_mo(file, catalog)
    return catalog


def is_compiled(language: str) -> bool:
    """Whether what is read at run time says the same as what people edit."""
    with path_of(language, "mo").open("rb") as file:
        compiled = _translated(read_mo(file))
    return compiled == _translated(read(language))


def _translated(catalog: Catalog) -> dict[str, tuple[str, ...]]:
    """Without plurals that nobody has translated: compiled, they have their English forms."""
    pairs = ((message, _forms(message)) for message in _messages(catalog))
    return {
        _source(message): forms
        for message, forms in pairs
        if any(forms) and not set(forms) <= set(message.id)
    }


def missing(catalog: Catalog, sources: Catalog) -> list[str]:
    """What is shown in English, because nobody has translated it."""
    return [
        source
        for source in map(_source, _messages(sources))
        if (found := catalog.get(source)) is None or not any(_forms(found))
    ]


def faults(catalog: Catalog) -> Iterator[str]:
    """What a translation does to its page that its original does not."""
    for message in _messages(catalog):
        source = _source(message)
        plural = not isinstance(message.id, str)
        for text in filter(None, _forms(message)):
            expected, used = _parts(source), _parts(text)
            # “One message” needs no number.
            if used != expected and not (plural and used <= expected):
                yield f"{text!r} is filled in otherwise than {source!r}"
            if TAG.findall(source) != TAG.findall(text) or ('"' in text and '"' not in source):
                yield f"{text!r} brings markup or quotes that {source!r} does not"
            if source.strip() == source and text.strip() != text:
                yield f"{text!r} has white space around it"


def _parts(text: str) -> set[str]:
    return set(PLACEHOLDER.findall(text))


def _messages(catalog: Catalog) -> list[Message]:
    return [message for message in catalog if message.id]  # without its head


def _source(message: Message) -> str:
    return message.id if isinstance(message.id, str) else message.id[0]


def _forms(message: Message) -> tuple[str, ...]:
    return (message.string,) if isinstance(message.string, str) else tuple(message.string or ())


def _add(catalog: Catalog, path: Path, texts: Iterator[Any]) -> None:
    for text in texts:
        catalog.add(text, locations=[(path.as_posix(), 0)])


def _of_template(path: Path) -> Iterator[Any]:
    # Its blanks are white space to a reader of Python, and would be wrong indentation.
    lines = templatize(path.read_text(encoding="utf-8"), origin=str(path)).splitlines()
    return _of_python("\n".join(line.lstrip() for line in lines).encode())


def _of_python(code: bytes) -> Iterator[Any]:
    for _, text, _, _ in extract("python", BytesIO(code), keywords=KEYWORDS):
        yield text


def _of_words(words: Any) -> Iterator[str]:
    """As chatapp/templatetags/words.py goes through them."""
    if isinstance(words, dict | list):
        for value in words.values() if isinstance(words, dict) else words:
            yield from _of_words(value)
    elif isinstance(words, str) and words:
        yield words
