"""Whatever a question holds, each dialect sends something or says what it cannot send."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay.dialects import DIALECTS, Asked
from relay.errors import ErrorKind, UpstreamError
from tests.relay.dialects.corpus import MODEL, REQUEST

dialect = pytest.mark.parametrize("dialect", ["openai-chat", "anthropic", "openai-responses"])

_KEYS = ["type", "text", "function", "name", "url", "id", "arguments", "content", "image_url"]
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(_KEYS), inner, max_size=4)
    ),
    max_leaves=6,
)
kinds = st.sampled_from(
    ["text", "image_url", "input_text", "input_image", "thinking", "reasoning", "file", "refusal"]
)
parts = st.fixed_dictionaries(
    {"type": kinds}, optional={"text": values, "image_url": values, "file": values}
)
calls = st.fixed_dictionaries(
    {}, optional={"function": values, "id": values, "name": values, "arguments": values}
)
messages = st.fixed_dictionaries(
    {"role": st.sampled_from(["user", "assistant", "system", "developer", "tool"])},
    optional={
        "content": values | st.lists(parts | values, max_size=3),
        "tool_calls": values | st.lists(calls, max_size=2),
        "call_id": values,
        "output": values,
    },
)
tools = st.dictionaries(st.sampled_from(_KEYS), values, max_size=4)


def ask(
    dialect: str,
    messages: list[dict[str, Any]],
    tools: list[dict[str, Any]] | None = None,
    *,
    stream: bool = True,
) -> dict[str, Any]:
    request = msgspec.structs.replace(REQUEST, messages=messages, tools=tools or [])
    model = replace(MODEL, dialect=dialect)
    return DIALECTS[dialect].build(Asked(request=request, model=model, stream=stream))


@dialect
@given(
    messages=st.lists(messages, max_size=3), tools=st.lists(tools, max_size=2), stream=st.booleans()
)
def test_a_question_is_sent_or_refused_in_our_words(
    dialect: str, messages: list[dict[str, Any]], tools: list[dict[str, Any]], stream: bool
) -> None:
    refusal = body = None
    try:
        body = ask(dialect, messages, tools, stream=stream)
    except UpstreamError as error:
        refusal = error
    if body is not None:
        assert body["stream"] is stream
        assert msgspec.json.decode(msgspec.json.encode(body))
    else:
        assert refusal is not None
        assert (refusal.kind, refusal.retryable) == (ErrorKind.INVALID_REQUEST, False)


@dialect
@pytest.mark.parametrize(
    "message",
    [
        {"role": "user", "content": [5]},
        {"role": "user", "content": [{"text": "no type"}]},
        {"role": "assistant", "tool_calls": "f"},
        {"role": "assistant", "tool_calls": [None]},
    ],
)
def test_what_is_no_part_is_refused_with_a_sentence(dialect: str, message: dict[str, Any]) -> None:
    with pytest.raises(UpstreamError, match="The question has"):
        ask(dialect, [message])


@dialect
def test_a_picture_is_understood_in_the_words_of_either_openai_dialect(dialect: str) -> None:
    url = "https://example.org/a.png"
    chat = {"type": "image_url", "image_url": {"url": url}}
    responses = {"type": "input_image", "image_url": url}
    bodies = [ask(dialect, [{"role": "user", "content": [part]}]) for part in (chat, responses)]
    assert bodies[0] == bodies[1]
    assert url in str(bodies[0])


@pytest.mark.parametrize(
    ("dialect", "kept"),
    [("openai-chat", set()), ("anthropic", {"thinking"}), ("openai-responses", {"reasoning"})],
)
def test_a_thought_goes_back_to_the_provider_that_signed_it_and_to_no_other(
    dialect: str, kept: set[str]
) -> None:
    thoughts = [
        {"type": "thinking", "thinking": "Hm", "signature": "AA"},
        {"type": "reasoning", "id": "rs_1", "encrypted_content": "BB", "summary": []},
    ]
    answer = {"role": "assistant", "content": [*thoughts, {"type": "text", "text": "Hi"}]}
    said = str(ask(dialect, [{"role": "user", "content": "Hello"}, answer]))
    assert {kind for kind in ("thinking", "reasoning") if f"'type': '{kind}'" in said} == kept
    assert "'Hi'" in said


@pytest.mark.parametrize(
    ("dialect", "part"),
    [
        ("anthropic", {"type": "input_audio", "input_audio": {}}),
        ("openai-responses", {"type": "document", "source": {}}),
    ],
)
def test_a_part_that_the_provider_has_no_words_for_is_refused_by_its_name(
    dialect: str, part: dict[str, Any]
) -> None:
    with pytest.raises(UpstreamError, match=f"type {part['type']}, which this model cannot"):
        ask(dialect, [{"role": "user", "content": [part]}])
