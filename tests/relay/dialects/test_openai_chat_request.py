"""What is asked of an OpenAI chat provider."""

from __future__ import annotations

from typing import Any

import pytest

from relay.config import ModelConfig
from relay.dialects import Asked
from relay.dialects.openai_chat_request import build, headers
from relay.request import GenerationRequest


def asked(
    messages: list[dict[str, Any]] | None = None,
    model: dict[str, Any] | None = None,
    **request: Any,
) -> dict[str, Any]:
    given = {"base_url": "http://127.0.0.1/v1", "upstream_model": "u-1", **(model or {})}
    question = GenerationRequest(
        response_id="r1",
        model="m",
        messages=messages or [{"role": "user", "content": "hi"}],
        created_at="2026-03-01T12:00:00Z",
        **request,
    )
    return build(
        Asked(request=question, model=ModelConfig(name="m", dialect="openai-chat", **given))
    )


def test_the_least_that_is_asked() -> None:
    assert asked() == {
        "model": "u-1",
        "messages": [{"role": "user", "content": "hi"}],
        "stream": True,
        "stream_options": {"include_usage": True},
    }


def test_instructions_come_first_as_the_systems_message() -> None:
    assert asked(instructions="Be brief.")["messages"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "hi"},
    ]


@pytest.mark.parametrize(
    ("wanted", "allowed", "limit"),
    [(None, None, None), (50, None, 50), (None, 80, 80), (50, 80, 50), (500, 80, 80)],
)
def test_no_more_tokens_than_the_model_may_write(
    wanted: int | None, allowed: int | None, limit: int | None
) -> None:
    body = asked(max_output_tokens=wanted, model={"max_output_tokens": allowed})
    assert body.get("max_tokens") == limit


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("https://api.openai.com/v1", "max_completion_tokens"),
        ("https://me.openai.azure.com/openai/v1", "max_completion_tokens"),
        ("https://notopenai.com/v1", "max_tokens"),
        ("http://127.0.0.1:8091/v1", "max_tokens"),
    ],
)
def test_the_limit_has_the_name_that_the_provider_knows(url: str, name: str) -> None:
    body = asked(max_output_tokens=5, model={"base_url": url})
    assert [key for key in body if key.startswith("max_")] == [name]


def test_what_was_not_asked_for_is_not_sent() -> None:
    body = asked(temperature=0.0, stop=["END"])
    assert (body["temperature"], body["stop"]) == (0.0, ["END"])
    assert {"temperature", "stop", "tools"}.isdisjoint(asked())


def test_extra_body_wins_but_cannot_turn_streaming_off() -> None:
    extra = {"return_progress": True, "temperature": 1, "stream": False}
    body = asked(temperature=0.0, model={"extra_body": extra})
    assert (body["return_progress"], body["temperature"], body["stream"]) == (True, 1, True)


def test_pictures_go_through_as_they_are() -> None:
    content = [
        {"type": "text", "text": "What is this?"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
    ]
    assert asked([{"role": "user", "content": content}])["messages"][0]["content"] == content


@pytest.mark.parametrize(
    ("output", "content"),
    [("21 degrees", "21 degrees"), ({"t": 21}, '{"t":21}'), ([], "[]"), ("", "")],
)
def test_a_tools_output_is_a_tool_message(output: object, content: str) -> None:
    body = asked([{"role": "tool", "call_id": "c", "output": output}])
    assert body["messages"] == [{"role": "tool", "tool_call_id": "c", "content": content}]


def test_calls_of_an_earlier_answer_are_told_in_their_words() -> None:
    ours = {"call_id": "c", "name": "f", "arguments": {"a": 1}}
    theirs = {"id": "c", "type": "function", "function": {"name": "f", "arguments": '{"a":1}'}}
    for call in (ours, theirs):
        message = {"role": "assistant", "content": None, "tool_calls": [call]}
        assert asked([message])["messages"] == [{**message, "tool_calls": [theirs]}]


def test_a_call_that_was_never_whole_is_told_as_an_empty_one() -> None:
    message = {"role": "assistant", "tool_calls": [{"call_id": "c", "name": "f"}]}
    (sent,) = asked([message])["messages"]
    assert sent["tool_calls"][0]["function"] == {"name": "f", "arguments": "{}"}


def test_flat_tools_are_wrapped() -> None:
    nested = {"type": "function", "function": {"name": "f", "parameters": {}}}
    assert asked(tools=[nested])["tools"] == [nested]
    assert asked(tools=[{"type": "function", "name": "f", "parameters": {}}])["tools"] == [nested]
    assert asked(tools=[{"name": "f", "parameters": {}}])["tools"] == [nested]


def test_the_request_itself_is_left_alone() -> None:
    messages = [{"role": "tool", "call_id": "c", "output": "x"}]
    before = [dict(message) for message in messages]
    asked(messages, instructions="Be brief.")
    assert messages == before


def test_a_key_is_sent_only_if_there_is_one() -> None:
    def sent(api_key: str | None) -> dict[str, str]:
        return headers(
            ModelConfig(
                name="m",
                dialect="openai-chat",
                base_url="http://h",
                upstream_model="u",
                api_key=api_key,
            )
        )

    assert "Authorization" not in sent(None)
    assert sent("k")["Authorization"] == "Bearer k"


def test_an_answer_in_one_piece_is_asked_for_without_the_options_of_streams() -> None:
    model = ModelConfig(name="m", dialect="openai-chat", base_url="http://m", upstream_model="u")
    request = GenerationRequest(
        response_id="r1", model="m", messages=[], created_at="2026-03-01T12:00:00Z"
    )
    body = build(Asked(request=request, model=model, stream=False))
    assert body["stream"] is False
    assert "stream_options" not in body
