"""What a page says about an answer, the same from the server and from its scripts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from chatapp.templatetags import words
from relay import TERMINAL, ErrorKind, Interruption, Snapshot, Status, StopReason

FIXTURES = Path(__file__).resolve().parent.parent / "fixtures" / "words"
SHORTFALLS = ("max_tokens", "content_filter", "log_limit")


def load(name: str) -> Any:
    return json.loads((FIXTURES / name).read_text(encoding="utf-8"))


def reasons(status: Status) -> list[str | None]:
    """Every reason of design §3, and one of a later version."""
    known: dict[Status, list[str]] = {
        Status.INCOMPLETE: list(SHORTFALLS),
        Status.FAILED: [str(kind) for kind in ErrorKind],
        Status.CANCELLED: [str(reason) for reason in StopReason],
        Status.INTERRUPTED: [str(reason) for reason in Interruption],
    }
    return [*known.get(status, []), None, "a_reason_of_tomorrow"]


def all_ends() -> list[dict[str, Any]]:
    """Every way to end, with and without words, as tests/fixtures/words/ends.json holds them."""
    cases = []
    for status in sorted(TERMINAL):
        for reason in reasons(status):
            for text in ("", "Some words."):
                for error in _errors(status, reason):
                    fields = {"status": status, "reason": reason, "text": text, "error": error}
                    end = words.end_of(msgspec.convert(fields, Snapshot))
                    cases.append({"snapshot": fields, "end": msgspec.to_builtins(end)})
    return cases


def _errors(status: Status, reason: str | None) -> list[dict[str, Any] | None]:
    if status != Status.FAILED or reason is None:
        return [None]
    return [{"code": reason, "message": "m", "retryable": yes} for yes in (True, False)]


@pytest.mark.parametrize("case", load("paragraphs.json"), ids=lambda case: repr(case["text"]))
def test_a_text_is_cut_into_paragraphs_at_empty_lines(case: dict[str, Any]) -> None:
    assert words.paragraphs(case["text"]) == case["paragraphs"]


def test_the_shared_cases_of_ends_are_what_the_server_says() -> None:
    """Renew them with: python -c 'from tests.chatapp.test_words import renew; renew()'"""
    assert load("ends.json") == json.loads(json.dumps(all_ends()))


@pytest.mark.parametrize("status", sorted(TERMINAL - {Status.COMPLETED}))
def test_every_known_reason_has_words_of_its_own(status: Status) -> None:
    ends = words.table()["ends"][status]
    missing = [reason for reason in reasons(status)[:-2] if reason not in ends]
    assert missing == []


def test_no_end_but_a_completed_one_can_look_complete() -> None:
    for case in all_ends():
        quiet = case["end"]["label"] == ""
        assert quiet == (
            case["snapshot"]["status"] == Status.COMPLETED and case["snapshot"]["text"] != ""
        )


def test_every_end_says_what_became_of_the_words() -> None:
    for case in all_ends():
        if case["end"]["label"] and case["snapshot"]["status"] != Status.COMPLETED:
            kept = words.table()["kept" if case["snapshot"]["text"] else "nothing"]
            assert kept in case["end"]["sentence"]


def test_the_upstreams_word_on_retrying_wins() -> None:
    for case in all_ends():
        if error := case["snapshot"]["error"]:
            assert case["end"]["retry"] is error["retryable"]


def test_the_states_of_a_running_answer() -> None:
    table = words.table()["state"]
    assert words.state_of(Snapshot()) == table["queued"]
    assert words.state_of(Snapshot(status=Status.IN_PROGRESS)) == table["in_progress"]
    assert words.state_of(Snapshot(status=Status.IN_PROGRESS, text="a")) == table["writing"]


@pytest.mark.parametrize("verb", ["send", "stop", "retry"])
@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 413, 422, 429, 500, 503])
def test_a_refusal_says_what_happened_what_was_kept_and_what_to_do(verb: str, status: int) -> None:
    sentence = words.trouble(verb, status)
    assert words.table()[verb]["kept"] in sentence
    assert sentence.count(".") >= 2


def test_a_sentence_of_the_service_takes_the_place_of_the_general_one() -> None:
    sentence = words.trouble("send", 413, "The message has 3 MiB; 1 MiB is the limit.")
    assert sentence.startswith("The message has 3 MiB; 1 MiB is the limit. Nothing was sent")


def test_what_went_wrong_inside_is_not_for_the_person() -> None:
    assert "refused" not in words.trouble("send", 503, "127.0.0.1:6379 refused the connection")


def renew() -> None:
    lines = ",\n".join(f"  {json.dumps(case)}" for case in all_ends())
    (FIXTURES / "ends.json").write_text(f"[\n{lines}\n]\n", encoding="utf-8")
