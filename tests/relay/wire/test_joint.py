"""Where an answer goes on: nothing twice, nothing lost, however the text is cut."""

from __future__ import annotations

import pytest

from relay.wire.joint import ANCHOR_CHARS, Joint, anchor_of

TIDES = "Tides come and go.\n\nThe moon pulls on the wat"
CASES = [
    # before, what the model says, what is new
    (TIDES, "The moon pulls on the water, and the sun too.", "er, and the sun too."),
    (TIDES, "pulls on the wat\n\ner", "\n\ner"),
    (TIDES, '"The moon pulls on the wat" er', " er"),
    (TIDES, "… the moon pulls", "… the moon pulls"),
    (TIDES, "er, and the sun too.", " er, and the sun too."),
    (TIDES, ", and so on", ", and so on"),
    (TIDES, TIDES + "er.", "er."),
    (TIDES, "Tides come and go. No.", " Tides come and go. No."),
    (TIDES, "the w", " the w"),
    (TIDES, "", ""),
    ("He said ha ha", "ha ha again", " ha ha again"),
    ("A list:\n- one\n- two\n", "- two\n- three", "- three"),
    ("A list:\n- one\n- the second thing\n", "- the second thing\n- three", "- three"),
    ("Hi", "Hi there", " there"),
    ("Ende. ", " Und weiter", "Und weiter"),
    (
        "数えると、一、二、三、四、五、六、七、八、九",
        "一、二、三、四、五、六、七、八、九、十",
        "、十",
    ),
]


def joined(joint: Joint, chunks: list[str]) -> str:
    return "".join([*(joint.feed(chunk) for chunk in chunks), joint.finish()])


@pytest.mark.parametrize(("before", "said", "new"), CASES)
def test_what_is_repeated_is_taken_off(before: str, said: str, new: str) -> None:
    assert joined(Joint(before, repeats=True), [said]) == new


@pytest.mark.parametrize(("before", "said", "new"), CASES)
def test_it_does_not_depend_on_how_the_text_is_cut(before: str, said: str, new: str) -> None:
    assert joined(Joint(before, repeats=True), list(said)) == new
    for at in range(len(said)):
        assert joined(Joint(before, repeats=True), [said[:at], said[at:]]) == new


@pytest.mark.parametrize("said", ["er, and", "pulls on the wat", " wat", "\n\nNext"])
def test_who_writes_on_behind_the_text_is_believed(said: str) -> None:
    assert joined(Joint(TIDES, repeats=False), list(said)) == said


def test_white_space_at_the_joint_is_not_doubled() -> None:
    assert joined(Joint("One.\n\n", repeats=False), ["\n", "Two."]) == "Two."


def test_what_cannot_be_a_repetition_is_shown_at_once() -> None:
    joint = Joint(TIDES, repeats=True)
    assert joint.feed("And") == " And"
    assert joint.feed(" the moon pulls on the wat") == " the moon pulls on the wat"


def test_the_anchor_is_whole_words_of_the_last_line() -> None:
    assert anchor_of(TIDES) == "The moon pulls on the wat"
    assert anchor_of("a\n\n") == "a"
    assert anchor_of("") == ""
    long = anchor_of("word " * 40)
    assert len(long) <= ANCHOR_CHARS
    assert long.startswith("word ")
    assert len(anchor_of("x" * 200)) == ANCHOR_CHARS
