"""Which sentence belongs to what, and how a text becomes paragraphs.

The sentences are static/chat/words.json, the one source; the page's scripts choose from it in the
same way (static/chat/words.js, render.js), so a page says the same before and after it is loaded
anew. `tests/fixtures/words/` holds both to it.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from django import template
from django.conf import settings
from django.utils.html import json_script
from django.utils.translation import get_language, gettext, override

from chatapp.attached import Part, parts_of
from chatapp.languages import SOURCE
from chatapp.named import undirected
from chatapp.numerals import grouped
from relay import Snapshot, Status

if TYPE_CHECKING:
    from django.utils.safestring import SafeString

register = template.Library()


@dataclass(frozen=True, slots=True)
class End:
    """How an answer ended, for a person. No label: it is complete and needs no words."""

    label: str = ""
    sentence: str = ""
    retry: bool = False
    """Whether trying again makes sense."""
    continues: bool = False
    """Whether its words are a beginning that can be gone on with."""


def table() -> dict[str, Any]:
    """All sentences, in the language that is spoken now."""
    return table_in(get_language() or SOURCE)


@cache  # part of the program, like a template
def table_in(language: str) -> dict[str, Any]:
    path = settings.BASE_DIR / "static" / "chat" / "words.json"
    with override(language):
        words: dict[str, Any] = _translated(json.loads(path.read_text(encoding="utf-8")))
    return words | {"language": language}


def _translated(words: Any) -> Any:
    """A sentence that has no translation yet stays as it is."""
    if isinstance(words, dict):
        return {key: _translated(value) for key, value in words.items()}
    if isinstance(words, list):
        return [_translated(value) for value in words]
    # gettext's answer to an empty text is the head of its catalogue
    return gettext(words) if words and isinstance(words, str) else words


@dataclass(frozen=True, slots=True)
class Example:
    """A question that somebody who is here for the first time may begin with."""

    title: str
    text: str

    @property
    def query(self) -> str:
        """Of the address that has it in the box."""
        return urlencode({"text": self.text})


def examples() -> list[Example]:
    return [Example(**words) for words in table()["examples"]]


def end_of(snapshot: Snapshot) -> End:
    """The twin of `Words.end`."""
    wrote = bool(snapshot.text or snapshot.refusal or snapshot.tool_calls)
    completed = snapshot.status == Status.COMPLETED
    reasons = table()["ends"][snapshot.status]
    key = "empty" if completed and not wrote else (snapshot.reason or "*")
    words = reasons.get(key, reasons["*"])
    if not words["label"]:
        return End()
    nothing = "" if completed else table()["nothing"]
    kept = table()["kept"] if wrote else nothing
    retry = snapshot.error.retryable if snapshot.error else words["retry"]
    begun = bool(snapshot.text) and not completed and not snapshot.tool_calls
    continues = begun and (snapshot.status != Status.FAILED or retry)
    sentence = _sentence(words["happened"], kept, words["next"])
    return End(words["label"], sentence, retry, continues)


def state_of(snapshot: Snapshot) -> str:
    """What a running answer is doing; the twin of `Words.state`. Empty: something else says it."""
    if snapshot.notice is not None:
        return _noticed(snapshot.notice)
    answers = snapshot.text or snapshot.refusal or snapshot.tool_calls
    if snapshot.reasoning and not answers:
        return ""  # what stands over the reasoning says it
    writing = snapshot.status == Status.IN_PROGRESS and answers
    state: str = table()["state"]["writing" if writing else snapshot.status]
    return state


def _noticed(notice: Any) -> str:
    """The twin of `Words.#noticed`: the log is written once, in English, for everybody."""
    words: str = table()["notices"].get(notice.code, "")
    if not words or table()["language"] == SOURCE:
        return str(notice.message)
    return words.format(model=notice.model, done=notice.done, total=notice.total)


def trouble(verb: str, status: int, detail: str = "") -> str:
    """Why a send, a stop or a retry did not work; the twin of `sendFailed` and `stopFailed`.

    `detail` is the service's own sentence, used where it knows more than the status.
    """
    words = table()[verb]
    found = words.get(str(status), words["*"])
    happened = detail if detail and found.get("detail") else found["happened"]
    return _sentence(happened, words["kept"], found["next"])


def next_rules(chosen: str) -> list[tuple[str, str]]:
    """What a message may do that comes while an answer is being written, and its words.

    To be refused is nobody's choice in a page: it is there only where it was chosen.
    """
    rules = ("queue", "interrupt", *(("reject",) if chosen == "reject" else ()))
    return [(rule, table()["next"][rule]) for rule in rules]


def left_out(count: int, model: str, tense: str) -> str:
    """What of a chat did not fit its model; `tense`: `was`, or `will` before it happens."""
    words = table()["context"][tense]
    sentence: str = words["one"] if count == 1 else words["many"]
    return sentence.format(count=grouped(count), model=model)


def _sentence(*parts: str) -> str:
    return " ".join(part for part in parts if part)


@register.filter
def paragraphs(text: str) -> list[str]:
    """What stands between empty lines; the twin of `paragraphs` in render.js."""
    parts = (part.strip("\n") for part in re.split(r"\n{2,}", text.replace("\r", "")))
    return [part for part in parts if part]


@register.simple_tag
def word(path: str) -> str:
    """One fixed text, such as `buttons.send`."""
    found: Any = table()
    for key in path.split("."):
        found = found[key]
    return str(found)


@register.simple_tag
def words_json() -> SafeString:
    """All sentences, for the page's scripts: data in the page, so it needs no request, and is in
    the page's language."""
    return _words_json_in(get_language() or SOURCE)


@cache
def _words_json_in(language: str) -> SafeString:
    return json_script(table_in(language), "words")


@register.simple_tag
def deleted(title: str) -> str:
    """What a person who may bring a chat back is told."""
    return word("chats.deleted").format(title=title)


@register.filter(name="undirected")
def undirected_name(text: str) -> str:
    """Of what somebody typed, where it is said as a name."""
    return undirected(text)


@register.filter
def said(text: str) -> list[Part]:
    """What a person wrote and what they attached, in turns."""
    return parts_of(text)


@register.simple_tag
def attached_size(part: Part) -> str:
    """The twin of `size` in question.js."""
    words = table()["attached"]["size"]
    sentence: str = words["one"] if part.lines == 1 else words["many"]
    return sentence.format(characters=grouped(len(part.text)), lines=grouped(part.lines))
