"""Official SDKs as judges: from the same bytes they read the same text and the same tool calls."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from relay.dialects.recording import Recording
from relay.replay import play, result_of
from tests.relay.judges.sdks import JUDGES, Reading, parsed

CASES = Path(__file__).parents[2] / "fixtures" / "corpus" / "cases"

DIFFERENCES: dict[str, tuple[Any, str]] = {
    # What the SDK reads, or the name of what it raises; and why we read something else.
    "anth_invalid_tool_json": ("ValueError", "one call that is not JSON costs it the whole answer"),
    "anth_max_tokens_tool_closed": (
        ("", [("make_file", {})]),
        "it completes cut off arguments by guessing; we call them truncated (rule 7)",
    ),
    "anth_unknown_event_plain_text": (
        "JSONDecodeError",
        "it parses the data of events that it does not know; we ignore them (rule 2)",
    ),
    "framing_event_name_absent_anthropic": (
        "AssertionError",
        "it goes by the event's name alone; the type in the data says the same",
    ),
    "done_choices_missing": ("TypeError", "a chunk without choices has no choices to look at"),
    "err_keepalive_newlines_then_json": (
        ("", []),
        "an answer that was not streamed is nothing to it; we read it (rule 1c)",
    ),
    "framing_bom_split_three_reads": (
        ("ked", []),
        "it takes the byte order mark for a part of the first field and loses that event",
    ),
    "framing_data_null_heartbeat": ("AttributeError", "null is a chunk to it, a heartbeat to us"),
    "framing_keepalive_wrapped_in_data": (
        "JSONDecodeError",
        "a comment inside of data is a keep-alive to us (rule 2)",
    ),
    "framing_truncated_utf8_in_content": (
        "UnicodeDecodeError",
        "it decodes strictly; WHATWG says with replacement",
    ),
    "shape_content_parts_text": ("TypeError", "content as a list of parts is no text to it"),
    "shape_delta_null": ("AttributeError", "a chunk whose delta is null"),
    "shape_lone_surrogate": (
        ("bad \ud83d half", []),
        "it hands out half a character, which cannot be encoded (rule 11)",
    ),
    "tool_args_lone_surrogate": (("", [("say", {"t": "x\udcafy"})]), "the same, in arguments"),
    "tool_args_object": ("TypeError", "arguments that are an object already cannot be joined"),
    "tool_args_absent": (("", [("now", "")]), "no arguments are {} to us (rule 7)"),
    "tool_args_empty_string": (("", [("now", "")]), "empty arguments are {} to us (rule 7)"),
    "tool_missing_index_two_calls": (
        ("", [("get_weatherget_time", '{"city":"Lima"}{"tz":"UTC"}')]),
        "without an index the id tells two calls apart (rule 6)",
    ),
    "tool_missing_index_two_in_one_delta": (
        ("", [("addadd", '{"n":1}{"n":2}')]),
        "without an index the id tells two calls apart (rule 6)",
    ),
    "tool_same_index_two_calls": (
        ("", [("write_filewrite_filelist_dir", '{"path":"a"}{"path":"b"}{}')]),
        "an index used again with a new id and name is a new call (rule 6)",
    ),
    "resp_args_only_in_done": (
        ("", [("save", "")]),
        "the item says nothing; the arguments came in function_call_arguments.done",
    ),
    "resp_completed_output_only": (
        ("", []),
        "nothing was streamed; we take the output of response.completed",
    ),
    "resp_incomplete_in_tool": (
        ("", []),
        "the call was never done; we tell of it, as one that broke off",
    ),
    "resp_no_arg_call": (("", [("now", "")]), "empty arguments are {} to us (rule 7)"),
    "resp_tail_in_item_done": (
        ("First half", []),
        "the done text says more than the deltas; we add its tail",
    ),
    "resp_text_done_only": (("", []), "the text came in output_text.done, without a delta"),
}


def good_cases() -> list[dict[str, Any]]:
    cases = [json.loads(path.read_bytes()) for path in sorted(CASES.glob("*.json"))]
    return [
        case
        for case in cases
        if case["dialect"] in JUDGES
        and case["expect"]["terminal_state"] in ("completed", "incomplete")
    ]


GOOD = good_cases()


def recorded(name: str) -> Recording:
    recording = Recording.from_json((CASES / f"{name}.json").read_bytes())
    recording.options = None  # tags in the text are a setting of ours; no SDK knows it
    return recording


def ours(recording: Recording) -> Reading:
    result = result_of(recording, asyncio.run(play(recording)))
    return result["text"], [
        (call["name"], call["arguments"] if "arguments" in call else parsed(call["raw"]))
        for call in result["tool_calls"]
    ]


def theirs(recording: Recording) -> Any:
    try:
        return JUDGES[recording.dialect](recording)
    except (ValueError, TypeError, AttributeError, AssertionError) as error:
        return type(error).__name__


def test_there_is_something_to_judge() -> None:
    assert len(GOOD) == 133
    assert set(DIFFERENCES) < {case["name"] for case in GOOD}


@pytest.mark.parametrize("name", [c["name"] for c in GOOD if c["name"] not in DIFFERENCES])
def test_the_sdk_reads_the_same(name: str) -> None:
    assert theirs(recorded(name)) == ours(recorded(name))


@pytest.mark.parametrize("name", DIFFERENCES)
def test_where_it_does_not_it_is_known_what_it_reads_and_why(name: str) -> None:
    reading, why = DIFFERENCES[name]
    assert theirs(recorded(name)) == reading
    assert ours(recorded(name)) != reading
    assert why
