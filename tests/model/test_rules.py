"""Each rule is stated in relay/PROTOCOL.md, tested where a script keeps it, and needed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.model.laws import Law
from tests.model.rules import ALL, BY_SCRIPT, NAMES, SAYS, SECTIONS
from tests.model.schedule import play
from tests.model.witnesses import WITNESSES

ROOT = Path(__file__).resolve().parents[2]
PROTOCOL = (ROOT / "relay" / "PROTOCOL.md").read_text()


def stated() -> set[str]:
    """Numbers of all sections, and of the points of those that have some."""
    found: set[str] = set()
    for part in re.split(r"^## ", PROTOCOL, flags=re.MULTILINE)[1:]:
        section = part.split(".")[0]
        found.add(section)
        found |= {f"{section}.{point}" for point in re.findall(r"^(\d+)\. ", part, re.MULTILINE)}
    return found


def cited_in_the_store() -> set[str]:
    """Sections that the tests of the store's scripts cite."""
    found: set[str] = set()
    for path in (ROOT / "tests" / "relay" / "store").glob("*.py"):
        for group in re.findall(r"PROTOCOL ([\d., and]*\d)", path.read_text()):
            found |= set(re.findall(r"(\d+)(?:\.\d+)?", group))
    return found


def test_every_rule_is_stated_in_the_protocol() -> None:
    assert {name: section for name, section in SECTIONS.items() if section not in stated()} == {}
    assert all(SAYS.values())


def test_every_rule_that_a_script_keeps_is_of_a_section_that_its_tests_cite() -> None:
    sections = {SECTIONS[name].split(".")[0] for name in BY_SCRIPT}
    assert sections - cited_in_the_store() == set()


def test_there_is_a_witness_for_every_rule() -> None:
    assert WITNESSES.keys() == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_without_this_one_rule_a_law_is_broken(name: str) -> None:
    """The same schedule, with it, is sound."""
    seed, law = WITNESSES[name]
    assert law in play(seed, ALL.without(name)).laws(), f"python -m tests.model {seed} -{name}"
    assert play(seed).laws() == set()


def test_a_rule_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="no rule is named"):
        ALL.without("tidiness")


def test_the_double_fault_excuses_nobody_else() -> None:
    """A writer that could have restored the log, and was not let in, is no double fault."""
    seed, law = WITNESSES["restore"]
    assert (law, False) in play(seed, ALL.without("restore"))
    assert law in {Law.TWO_ENDS, Law.WRONG_TEXT, Law.LOG_AND_RECORD, Law.WORDS}
