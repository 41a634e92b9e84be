"""Numbers are written as the reader's language writes them, on the server as in the page."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from django.utils.translation import override

from chatapp.languages import LANGUAGES
from chatapp.numerals import grouped, grouped_later, plain, tenths
from chatapp.services.errors import TooLarge

FIXTURE = Path(__file__).resolve().parent.parent / "fixtures" / "words" / "numerals.json"
CASES = json.loads(FIXTURE.read_text(encoding="utf-8"))


@pytest.mark.parametrize(("language", "number", "whole", "tenth"), CASES)
def test_the_shared_cases_are_what_the_server_writes(
    language: str, number: int, whole: str, tenth: str
) -> None:
    with override(language):
        assert (grouped(number), tenths(number)) == (whole, tenth)


def test_every_language_has_cases() -> None:
    assert {language for language, *_ in CASES} == {code for code, _ in LANGUAGES}


def test_a_sentence_that_was_made_before_its_reader_was_known() -> None:
    number, refusal = grouped_later(12345), TooLarge(1234567, 1048576)
    with override("de"):
        assert str(number) == "12.345"
        assert "1.234.567" in str(refusal)
        assert plain(0.15) == "0,15"
    assert str(number) == "12,345"
    assert "1,048,576 bytes" in str(refusal)
