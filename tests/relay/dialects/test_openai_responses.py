"""The OpenAI Responses dialect, where the corpus says nothing."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from relay import events as ev
from relay.dialects.openai_responses import OpenAIResponsesDecoder
from relay.errors import ErrorKind
from relay.fold import Snapshot, fold
from relay.states import FinishReason

if TYPE_CHECKING:
    from relay.dialects import Finish

Json = dict[str, Any]


def event(name: str, **members: object) -> Json:
    return {"type": f"response.{name}", **members}


CREATED = event("created", response={"status": "in_progress", "output": []})


def ended(*output: Json, status: str = "completed", **members: object) -> Json:
    usage = {"input_tokens": 1, "output_tokens": 2}
    response = {"status": status, "output": list(output), "usage": usage, **members}
    return event(status, response=response)


def call(arguments: str, number: int = 1) -> Json:
    return {
        "type": "function_call",
        "id": f"fc_{number}",
        "call_id": f"call_{number}",
        "name": "f",
        "arguments": arguments,
    }


def message(text: str) -> Json:
    return {"type": "message", "content": [{"type": "output_text", "text": text}]}


def added(item: Json, **members: object) -> Json:
    return event("output_item.added", item=item, **members)


def fragment(delta: str, **members: object) -> Json:
    return event("function_call_arguments.delta", delta=delta, **members)


def text(delta: str) -> Json:
    return event("output_text.delta", output_index=0, content_index=0, delta=delta)


def heard(*values: Json, clean: bool = True) -> tuple[Snapshot, Finish]:
    decoder = OpenAIResponsesDecoder(response_id="r1", secret="very-secret")
    frames = [f"event: {v['type']}\ndata: {json.dumps(v)}\n\n".encode() for v in values]
    events = [event for frame in frames for event in decoder.feed(frame)]
    finish = decoder.finish(clean)
    for event_ in events + finish.events:
        ev.encode_event(event_, 1)  # whatever came, it can be stored
    return fold(events + finish.events), finish


def calls_in(*values: Json) -> list[tuple[str, object]]:
    snapshot, finish = heard(*values)
    assert finish.finish_reason is FinishReason.TOOL_CALLS
    return [(c.call_id, c.arguments) for c in snapshot.tool_calls]


# -- the same said at several places --------------------------------------------------------------
def test_arguments_that_only_the_final_response_holds_are_taken() -> None:
    begun = added(call(""), output_index=0)
    assert calls_in(CREATED, begun, ended(call('{"a":1}'))) == [("call_1", {"a": 1})]


def test_arguments_that_a_call_began_with_count_when_no_others_come() -> None:
    begun = added(call('{"a":1}'), output_index=0)
    assert calls_in(CREATED, begun, ended()) == [("call_1", {"a": 1})]
    streamed = fragment('{"a":2}', output_index=0)
    assert calls_in(CREATED, begun, streamed, ended()) == [("call_1", {"a": 2})]


def test_a_call_that_was_never_streamed_is_taken_from_the_final_response() -> None:
    done = event("output_item.done", item=call("{}", 1), output_index=0)
    final = ended(message("x"), call("{}", 1), call('{"b":1}', 2))
    assert calls_in(CREATED, done, final) == [("call_1", {}), ("call_2", {"b": 1})]


def test_calls_without_an_output_index_are_told_apart_by_their_items() -> None:
    assert calls_in(
        CREATED,
        added(call("", 1)),
        added(call("", 2)),
        fragment('{"a":', item_id="fc_1"),
        fragment('{"b":2}', item_id="fc_2"),
        fragment("1}", item_id="fc_1"),
        ended(),
    ) == [("call_1", {"a": 1}), ("call_2", {"b": 2})]


def test_ids_of_items_that_change_from_event_to_event_are_not_looked_at() -> None:
    assert calls_in(
        CREATED,
        added({**call(""), "id": "x1"}, output_index=0),
        fragment('{"a":', item_id="x2", output_index=0),
        fragment("1}", item_id="x3", output_index=0),
        event("output_item.done", output_index=0, item={**call('{"a":1}'), "id": "x4"}),
        ended({**call('{"a":1}'), "id": "x5"}),
    ) == [("call_1", {"a": 1})]


def test_the_final_response_adds_what_was_not_shown_and_repeats_nothing() -> None:
    assert heard(CREATED, text("Hi"), ended(message("Hi there")))[0].text == "Hi there"
    assert heard(CREATED, text("Hi"), ended(message("Hi")))[0].text == "Hi"
    assert heard(CREATED, text("Hi"), ended(message("Bye")))[0].text == "Hi"


def test_text_that_only_the_final_response_holds_is_taken_beside_streamed_reasoning() -> None:
    thought = {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Hm"}]}
    delta = event("reasoning_summary_text.delta", output_index=0, summary_index=0, delta="Hm")
    snapshot, _ = heard(CREATED, delta, ended(thought, message("Hi")))
    assert (snapshot.reasoning, snapshot.text) == ("Hm", "Hi")


def test_a_thought_and_its_summary_are_two_texts() -> None:
    item = {
        "type": "reasoning",
        "summary": [{"type": "summary_text", "text": "Short. "}],
        "content": [{"type": "reasoning_text", "text": "Long."}],
    }
    snapshot, _ = heard(CREATED, event("output_item.done", output_index=0, item=item), ended(item))
    assert snapshot.reasoning == "Short. Long."


def test_a_signature_is_told_once() -> None:
    item = {"type": "reasoning", "id": "rs", "summary": [], "encrypted_content": "AA"}
    snapshot, _ = heard(CREATED, event("output_item.done", output_index=0, item=item), ended(item))
    assert [meta.data for meta in snapshot.meta] == [{"id": "rs", "signature": "AA"}]


# -- ends -----------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("details", "reason"),
    [
        ({"reason": "max_output_tokens"}, FinishReason.LENGTH),
        ({"reason": "content_filter"}, FinishReason.CONTENT_FILTER),
        ({"reason": "max_tool_calls"}, FinishReason.LENGTH),
        ({"reason": None}, FinishReason.LENGTH),
        (None, FinishReason.LENGTH),
    ],
)
def test_what_is_incomplete_is_never_a_whole_answer(details: object, reason: FinishReason) -> None:
    end = ended(status="incomplete", incomplete_details=details)
    assert heard(CREATED, text("Hi"), end)[1].finish_reason is reason


def test_an_answer_that_the_provider_cancelled_has_failed() -> None:
    snapshot, finish = heard(CREATED, text("Hi"), ended(status="cancelled"))
    assert finish.error is not None
    assert (snapshot.text, finish.error.kind) == ("Hi", ErrorKind.SERVER_ERROR)


@pytest.mark.parametrize(
    ("status", "error", "kind"),
    [
        ("failed", {"code": "rate_limit_exceeded", "message": "slow"}, ErrorKind.RATE_LIMIT),
        ("queued", None, ErrorKind.EMPTY_RESPONSE),
        ("in_progress", None, ErrorKind.EMPTY_RESPONSE),
        ("completed", None, None),
        ("incomplete", None, None),
    ],
)
def test_a_response_in_one_piece_ends_as_its_status_says(
    status: str, error: object, kind: ErrorKind | None
) -> None:
    body = {"object": "response", "status": status, "output": [message("Hi")], "error": error}
    decoder = OpenAIResponsesDecoder()
    decoder.feed(json.dumps(body).encode())
    finish = decoder.finish(True)
    assert (finish.error.kind if finish.error is not None else None) is kind
    if kind is None:
        assert fold(finish.events).text == "Hi"


@pytest.mark.parametrize(
    "odd",
    [
        {"type": [], "delta": "x"},
        event("output_text.delta", output_index=-1, delta=5),
        event("output_item.added", item=7),
        event("output_item.done", item={"type": "message", "content": 5}),
        event("content_part.done", part={"type": [], "text": "x"}),
        event("content_part.done", part={"type": "output_text", "annotations": [1]}),
        event("output_text.annotation.added", annotation="x"),
        event("a_thing_of_next_year", delta="not text"),
    ],
    ids=json.dumps,
)
def test_odd_members_hurt_nothing_else(odd: Json) -> None:
    snapshot, finish = heard(CREATED, odd, text("Hi"), odd, ended())
    assert finish.error is None
    assert (snapshot.text, snapshot.meta) == ("Hi", ())
