"""What is asked of an OpenAI Responses provider."""

from __future__ import annotations

from typing import Any

from relay.config import ModelConfig
from relay.dialects import Asked
from relay.dialects.openai_responses_request import build
from relay.request import GenerationRequest

HI = {"role": "user", "content": "hi"}


def asked(
    messages: list[dict[str, Any]],
    given: dict[str, Any] | None = None,
    *,
    stream: bool = True,
    **request: Any,
) -> dict[str, Any]:
    model = {"base_url": "http://127.0.0.1/v1", "upstream_model": "u-1", **(given or {})}
    question = GenerationRequest(
        response_id="r1",
        model="m",
        messages=messages,
        created_at="2026-03-01T12:00:00Z",
        **request,
    )
    config = ModelConfig(name="m", dialect="openai-responses", **model)
    return build(Asked(request=question, model=config, stream=stream))


def test_the_least_that_is_asked() -> None:
    assert asked([HI]) == {"model": "u-1", "input": [HI], "store": False, "stream": True}


def test_limits_instructions_and_temperature_have_their_names() -> None:
    body = asked(
        [HI], {"max_output_tokens": 9}, max_output_tokens=50, instructions="Be.", temperature=0.5
    )
    assert (body["max_output_tokens"], body["instructions"], body["temperature"]) == (9, "Be.", 0.5)


def test_parts_take_the_name_that_their_role_wants() -> None:
    parts = [
        {"type": "text", "text": "a"},
        {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}},
        {"type": "input_file", "file_id": "f"},
        "b",
    ]
    body = asked([{"role": "user", "content": parts}, {"role": "assistant", "content": parts[:1]}])
    assert [item["content"] for item in body["input"]] == [
        [
            {"type": "input_text", "text": "a"},
            {"type": "input_image", "image_url": "https://example.org/a.png"},
            {"type": "input_file", "file_id": "f"},
            {"type": "input_text", "text": "b"},
        ],
        [{"type": "output_text", "text": "a"}],
    ]


def test_calls_and_their_results_are_items() -> None:
    call = {"call_id": "c1", "name": "add", "arguments": {"a": 1}}
    body = asked(
        [
            {"role": "assistant", "content": "", "tool_calls": [call]},
            {"role": "tool", "call_id": "c1", "output": [1, 2]},
        ]
    )
    assert body["input"] == [
        {"type": "function_call", "call_id": "c1", "name": "add", "arguments": '{"a":1}'},
        {"type": "function_call_output", "call_id": "c1", "output": "[1,2]"},
    ]


def test_items_of_their_own_go_through() -> None:
    item = {"type": "reasoning", "id": "rs_1", "encrypted_content": "x", "summary": []}
    assert asked([item, HI])["input"] == [item, HI]


def test_tools_are_flat() -> None:
    nested = {"type": "function", "function": {"name": "add", "parameters": {}}}
    theirs = {"type": "web_search"}
    assert asked([HI], tools=[nested, theirs])["tools"] == [
        {"type": "function", "name": "add", "parameters": {}},
        theirs,
    ]


def test_stop_strings_are_ours_to_find() -> None:
    assert "stop" not in asked([HI], stop=["END"])


def test_only_openai_is_asked_not_to_pad() -> None:
    theirs = {"base_url": "https://api.openai.com/v1"}
    assert asked([HI], theirs)["stream_options"] == {"include_obfuscation": False}
    assert "stream_options" not in asked([HI])
    assert "stream_options" not in asked([HI], theirs, stream=False)


def test_the_models_own_settings_win_over_all_but_the_streaming() -> None:
    body = asked([HI], {"extra_body": {"store": True, "stream": False}}, stream=True)
    assert (body["store"], body["stream"]) == (True, True)
