"""The site in several languages: who is answered in which, and whether its sentences are sound."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest
from babel.messages.catalog import Catalog
from django.template.base import Lexer, TokenType
from django.test import AsyncClient
from django.utils import translation

from chatapp.management import catalogue
from chatapp.models import User
from chatapp.templatetags import words
from relay import Snapshot

if TYPE_CHECKING:
    from relay import MemoryStore
    from tests.chatapp.conftest import Api

ROOT = Path(__file__).resolve().parents[2]
TEMPLATES = sorted((ROOT / "templates").rglob("*.html"))
SAID = {"aria-label", "title", "placeholder", "alt", "data-done"}
"""Attributes that people read or hear."""
STYLES = sorted((ROOT / "static" / "chat").glob("*.css"))
SIDES = re.compile(r"(?:(?<=[-\s;{])(?:left|right)(?:-[a-z]+)?\s*:|:\s*(?:left|right)\b)[^;}]*")
KNOWN_SIDE = re.compile(r"[^{}]*(?::dir\(|\.right\b)[^{}]*\{[^{}]*\}")
"""Rules that ask which way it is read, or that are for a column whose writer said `---:`."""
FOUR = re.compile(r"(?:inset|margin|padding): " + " ".join([r"([^\s;()]+)"] * 4) + ";")
"""Top, right, bottom, left."""
SKIPPED = {"blocktranslate", "comment"}


@pytest.mark.parametrize("language", catalogue.TRANSLATED)
def test_what_is_translated_is_filled_in_like_its_original(
    language: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is missing is shown in English, and printed here; it fails nobody's test."""
    catalog = catalogue.read(language)
    lacking = catalogue.missing(catalog, catalogue.in_sources())
    print(f"{language} lacks {len(lacking)}:", *lacking, sep="\n  ")
    assert list(catalogue.faults(catalog)) == []


@pytest.mark.parametrize("language", catalogue.TRANSLATED)
def test_what_is_compiled_is_what_was_written(language: str) -> None:
    assert catalogue.is_compiled(language), "run `make messages`"


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("{n} left", "noch {m}"),
        ("{n} left", "noch einige"),
        ("%(name)s left", "{name} ging"),
        ("You are <strong>%(name)s</strong>.", "Du bist %(name)s."),
        ("Close", 'Zu" onclick="x'),
        ("Close", "Zu "),
    ],
)
def test_a_translation_that_would_break_its_page_is_found(source: str, text: str) -> None:
    catalog = Catalog("de")
    catalog.add(source, text)
    assert len(list(catalogue.faults(catalog))) == 1


def test_a_form_for_one_needs_no_number() -> None:
    catalog = Catalog("de")
    catalog.add(("{n} place", "{n} places"), ("ein Ort", "{n} Orte"))
    assert list(catalogue.faults(catalog)) == []


def test_sentences_are_found_where_they_are_written() -> None:
    found = catalogue.in_sources()
    for source in ("Back to your chats", "Signed out in {n} other place.", "Thinking…"):
        assert source in found
    assert catalogue.missing(Catalog("de"), found)


class Readable(HTMLParser):
    """Collects what a person would read of a template if none of its tags said anything."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self._code = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._code += tag in ("code", "kbd")
        self.found += [value for name, value in attrs if name in SAID and value]

    def handle_endtag(self, tag: str) -> None:
        self._code -= tag in ("code", "kbd")

    def handle_data(self, data: str) -> None:
        if not self._code:
            self.found.append(data)


def bare_text(template: str) -> list[str]:
    """What stands in a template in one language only."""
    kept, skipping = [], ""
    for token in Lexer(template).tokenize():
        name, *more = token.contents.split() or [""]
        a_class = name == "block" and more[0].endswith("_class")
        if token.token_type is TokenType.BLOCK and (name in SKIPPED or a_class):
            skipping = f"end{name}"
        elif token.token_type is TokenType.BLOCK and name == skipping:
            skipping = ""
        elif token.token_type is TokenType.TEXT and not skipping:
            kept.append(token.contents)
    reader = Readable()
    reader.feed("".join(kept))
    texts = (text.replace("Unbroken", "").replace("UTC", "").strip() for text in reader.found)
    return [text for text in texts if re.search(r"[^\W\d_]{2}", text)]


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_templates_have_no_text_in_one_language_only(path: Path) -> None:
    """Write {% translate "…" %} around it ; `make messages` collects it."""
    assert bare_text(path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    "template",
    [
        "<p>Hello</p>",
        '<p aria-label="Hello {{ name }}"></p>',
        '{% translate "x" %} and <b>more</b>',
        "{% blocktranslate %}x{% endblocktranslate %} Hello",
    ],
)
def test_bare_text_is_seen(template: str) -> None:
    assert bare_text(template)


@pytest.mark.parametrize(
    "template",
    [
        '<p class="big">{% translate "Hello" %} · Unbroken</p>',
        "{% blocktranslate %}Hello <b>{{ name }}</b>{% endblocktranslate %}",
        "<code>Authorization: Bearer</code>{# Hello #}{% comment %}Hello{% endcomment %}",
    ],
)
def test_what_is_translated_is_not_bare(template: str) -> None:
    assert bare_text(template) == []


@pytest.mark.parametrize("path", STYLES, ids=lambda path: path.name)
def test_styles_know_start_and_end_but_no_left_or_right(path: Path) -> None:
    """Left is where a line ends in Arabic: `margin-inline-start`, `inset-inline-end`, `end`."""
    style = path.read_text(encoding="utf-8")
    assert SIDES.findall(KNOWN_SIDE.sub("", style)) == []
    assert [four for four in FOUR.findall(style) if four[1] != four[3]] == []


def test_sides_are_seen() -> None:
    for rule in ("margin-left: 1px", "left:0", "text-align: right", "border-right-width: 2px"):
        assert SIDES.search(f".a {{ {rule} }}"), rule
    assert SIDES.search(KNOWN_SIDE.sub("", ".a:dir(rtl) { left: 0 } .b { left: 0 }"))
    assert not SIDES.search(".words .right { inset-inline-end: 0; text-align: end; }")


async def said(path: str, *, accepts: str, client: AsyncClient | None = None) -> str:
    reply = await (client or AsyncClient()).get(path, headers={"accept-language": accepts})
    assert "Accept-Language" in reply.headers["Vary"]
    return reply.content.decode()


async def test_a_stranger_is_answered_in_the_language_of_the_browser(db: None) -> None:
    assert '<html lang="en">' in await said("/account/login/", accepts="nl,en;q=0.5")
    assert '<html lang="de">' in await said("/account/login/", accepts="de-AT,en;q=0.5")
    assert '<html lang="ar" dir="rtl">' in await said("/account/login/", accepts="ar")
    assert '<html lang="de">' in await said("/nowhere", accepts="de")  # pages about errors, too


async def test_a_persons_choice_comes_before_that_of_the_browser(user: User) -> None:
    client = AsyncClient()
    await client.aforce_login(user)
    assert '<html lang="de">' in await said("/", accepts="de", client=client)
    form = {"enter": "sends", "language": "ar"}
    assert (await client.post("/account/preferences", form)).status_code == 302
    assert '<html lang="ar" dir="rtl">' in await said("/", accepts="de", client=client)
    assert translation.get_language() == "en", "nobody else is answered in it"
    # Views of allauth's, which are synchronous; and admin, which is of the docs' language.
    assert '<html lang="ar"' in await said("/account/password/", accepts="de", client=client)
    await User.objects.filter(pk=user.pk).aupdate(is_staff=True)
    assert '<html lang="en"' in await said("/admin/", accepts="de", client=client)


async def test_a_language_that_there_is_not_is_refused(user: User) -> None:
    client = AsyncClient()
    await client.aforce_login(user)
    reply = await client.post("/account/preferences", {"language": "tlh"})
    assert reply.status_code == 400
    await user.arefresh_from_db()
    assert user.language == ""


def test_a_sentence_without_a_translation_is_said_in_english() -> None:
    with translation.override("de"):
        assert words._translated({"a": ["Not in any catalogue", "", True]}) == {
            "a": ["Not in any catalogue", "", True]
        }


def test_the_words_of_the_pages_scripts_are_in_its_language() -> None:
    english = words.table()
    with translation.override("de"):
        german = words.table()
        assert german["ends"]["failed"]["truncated"]["retry"] is True
        assert german["buttons"]["send"] == "Senden" != english["buttons"]["send"]
        assert "Senden" in words.words_json()
    assert words.table() is english
    assert "Senden" not in words.words_json()


def test_a_notice_of_the_log_is_said_in_the_language_of_the_page() -> None:
    notice = {"code": "fallback", "message": "Overloaded. other instead.", "model": "other"}
    snapshot = msgspec.convert({"status": "in_progress", "notice": notice}, Snapshot)
    assert words.state_of(snapshot) == notice["message"]
    with translation.override("de"):
        assert "other springt ein" in words.state_of(snapshot)


async def test_the_api_speaks_english_unless_it_is_asked_for_another(
    api: Api, store: MemoryStore
) -> None:
    body = {"model": "none", "input": "hello"}
    reply = await api.post("/api/responses", body)
    assert reply.json()["detail"] == "There is no model 'none'. Models: fast, other."
    reply = await api.post("/api/responses", body, accept_language="de-CH")
    assert reply.json()["detail"] == "Es gibt kein Modell „none“. Modelle: fast, other."
    assert reply.headers["Content-Language"] == "de"
