"""What is asked of Anthropic."""

from __future__ import annotations

from typing import Any

import pytest

from relay.config import ModelConfig
from relay.dialects import Asked
from relay.dialects.anthropic_request import MAX_TOKENS, build, headers
from relay.errors import ErrorKind, UpstreamError
from relay.request import GenerationRequest

PIXEL = "data:image/png;base64,iVBORw0KGgo="


def model(**changes: Any) -> ModelConfig:
    given = {"base_url": "http://127.0.0.1/v1", "upstream_model": "u-1", **changes}
    return ModelConfig(name="m", dialect="anthropic", **given)


def asked(
    messages: list[dict[str, Any]], given: dict[str, Any] | None = None, **request: Any
) -> dict[str, Any]:
    question = GenerationRequest(
        response_id="r1",
        model="m",
        messages=messages,
        created_at="2026-03-01T12:00:00Z",
        **request,
    )
    return build(Asked(request=question, model=model(**(given or {}))))


def turns(*messages: dict[str, Any]) -> list[tuple[str, list[dict[str, Any]]]]:
    return [(turn["role"], turn["content"]) for turn in asked(list(messages))["messages"]]


HI = {"role": "user", "content": "hi"}


def text(value: str) -> dict[str, str]:
    return {"type": "text", "text": value}


def test_the_least_that_is_asked() -> None:
    assert asked([HI]) == {
        "model": "u-1",
        "max_tokens": MAX_TOKENS,
        "messages": [{"role": "user", "content": [text("hi")]}],
        "stream": True,
    }


def test_the_smaller_limit_counts() -> None:
    assert asked([HI], {"max_output_tokens": 100}, max_output_tokens=7)["max_tokens"] == 7
    assert asked([HI], {"max_output_tokens": 9000})["max_tokens"] == 9000


def test_system_texts_of_every_kind_become_the_system_prompt() -> None:
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": "Be brief."},
        {"role": "developer", "content": [text("Be kind.")]},
        HI,
    ]
    body = asked(messages, instructions="Speak Welsh.")
    assert body["system"] == "Speak Welsh.\n\nBe brief.\n\nBe kind."
    assert len(body["messages"]) == 1


def test_turns_of_one_role_in_a_row_become_one_and_empty_ones_none() -> None:
    assert turns(
        HI,
        {"role": "user", "content": "again"},
        {"role": "assistant", "content": ""},
        {"role": "assistant", "content": "yes?"},
    ) == [("user", [text("hi"), text("again")]), ("assistant", [text("yes?")])]


def test_calls_and_their_results_take_their_form() -> None:
    call = {"call_id": "c1", "name": "add", "arguments": {"a": 1}}
    theirs = {"id": "c2", "function": {"name": "sub", "arguments": '{"b": 2}'}}
    assert turns(
        HI,
        {"role": "assistant", "content": "Let me see.", "tool_calls": [call, theirs]},
        {"role": "tool", "call_id": "c1", "output": {"sum": 1}},
        {"role": "tool", "tool_call_id": "c2", "content": "2"},
    )[1:] == [
        (
            "assistant",
            [
                text("Let me see."),
                {"type": "tool_use", "id": "c1", "name": "add", "input": {"a": 1}},
                {"type": "tool_use", "id": "c2", "name": "sub", "input": {"b": 2}},
            ],
        ),
        (
            "user",
            [
                {"type": "tool_result", "tool_use_id": "c1", "content": '{"sum":1}'},
                {"type": "tool_result", "tool_use_id": "c2", "content": "2"},
            ],
        ),
    ]


@pytest.mark.parametrize("arguments", ["", "{broken", "[1]", None])
def test_a_call_with_arguments_that_cannot_be_read_is_sent_without_any(arguments: Any) -> None:
    call = {"call_id": "c1", "name": "add", "arguments": arguments}
    ((_, [block]),) = turns({"role": "assistant", "tool_calls": [call]})
    assert block["input"] == {}


def test_pictures_are_sent_as_bytes_or_as_an_address() -> None:
    ((_, blocks),) = turns(
        {
            "role": "user",
            "content": [
                {"type": "image_url", "image_url": {"url": PIXEL}},
                {"type": "input_image", "image_url": "https://example.org/a.png"},
                {"type": "input_text", "text": "what?"},
            ],
        }
    )
    assert blocks == [
        {
            "type": "image",
            "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="},
        },
        {"type": "image", "source": {"type": "url", "url": "https://example.org/a.png"}},
        text("what?"),
    ]


def test_a_picture_without_address_is_refused_in_words() -> None:
    with pytest.raises(UpstreamError) as refused:
        turns({"role": "user", "content": [{"type": "image_url"}]})
    assert refused.value.kind is ErrorKind.INVALID_REQUEST


def test_blocks_of_their_own_go_through() -> None:
    thought = {"type": "thinking", "thinking": "hm", "signature": "sig"}
    assert turns({"role": "assistant", "content": [thought, text("So.")]}) == [
        ("assistant", [thought, text("So.")])
    ]


def test_tools_of_either_form_take_theirs() -> None:
    parameters = {"type": "object", "properties": {"a": {"type": "integer"}}}
    nested = {"type": "function", "function": {"name": "add", "parameters": parameters}}
    flat = {"type": "function", "name": "now", "description": "The time."}
    theirs = {"type": "web_search_20250305", "name": "web_search"}
    schema = {"name": "x", "input_schema": parameters}
    assert asked([HI], tools=[nested, flat, schema, theirs])["tools"] == [
        {"name": "add", "input_schema": parameters},
        {
            "name": "now",
            "input_schema": {"type": "object", "properties": {}},
            "description": "The time.",
        },
        schema,
        theirs,
    ]


def test_stops_that_they_refuse_are_not_sent() -> None:
    assert asked([HI], stop=["END", "\n\n"])["stop_sequences"] == ["END"]
    assert "stop_sequences" not in asked([HI], stop=["\n"])


def test_a_temperature_is_kept_within_their_range() -> None:
    assert asked([HI], temperature=1.7)["temperature"] == 1.0


def test_thinking_gets_its_room_and_no_temperature() -> None:
    thinking = {"type": "enabled", "budget_tokens": 8000}
    body = asked([HI], {"extra_body": {"thinking": thinking}}, temperature=0.2)
    assert body["max_tokens"] == MAX_TOKENS + 8000
    assert "temperature" not in body
    enough = {"extra_body": {"thinking": thinking}, "max_output_tokens": 9000}
    assert asked([HI], enough)["max_tokens"] == 9000


@pytest.mark.parametrize("thinking", [{"type": "adaptive"}, {"type": "disabled"}, None, "on"])
def test_a_temperature_is_kept_unless_the_model_thinks(thinking: Any) -> None:
    body = asked([HI], {"extra_body": {"thinking": thinking}}, temperature=0.5)
    assert body["thinking"] == thinking
    assert ("temperature" in body) is (thinking != {"type": "adaptive"})


def test_the_models_own_settings_win_over_all_but_the_streaming() -> None:
    body = asked([HI], {"extra_body": {"max_tokens": 5, "stream": False, "top_k": 3}})
    assert (body["max_tokens"], body["stream"], body["top_k"]) == (5, True, 3)


def test_the_key_has_a_header_of_its_own() -> None:
    sent = headers(model(api_key="k"))
    assert sent["x-api-key"] == "k"
    assert "anthropic-version" in sent
    assert "Authorization" not in sent
    assert "x-api-key" not in headers(model())
