"""Asking for the rest of an answer, dialect by dialect. PROTOCOL 14"""

from __future__ import annotations

import json
from typing import Any

import pytest

from relay.config import ModelConfig
from relay.dialects import DIALECTS, Asked, decoder_for, told
from relay.events import TextDelta
from relay.request import GenerationRequest

MESSAGES: list[dict[str, Any]] = [
    {"role": "user", "content": "How do tides work?"},
    {"role": "assistant", "content": "The moon pulls on the wat"},
]


def model_of(dialect: str, **more: Any) -> ModelConfig:
    return ModelConfig(
        name="m", dialect=dialect, base_url="http://127.0.0.1:9", upstream_model="u", **more
    )


def request_of(*, continues: bool = True) -> GenerationRequest:
    return GenerationRequest(
        response_id="r", model="m", messages=MESSAGES, created_at="", continues=continues
    )


@pytest.mark.parametrize("name", sorted(set(DIALECTS) - {"llamacpp"}))
def test_who_would_begin_anew_is_asked_to_repeat_the_last_words(name: str) -> None:
    request = told(request_of(), DIALECTS[name], model_of(name))
    assert request.messages[:2] == MESSAGES
    wish = request.messages[2]
    assert wish["role"] == "user"
    assert wish["content"].endswith("\nThe moon pulls on the wat")
    assert told(request_of(continues=False), DIALECTS[name], model_of(name)).messages == MESSAGES


def test_an_engine_that_writes_on_is_given_the_text_alone() -> None:
    dialect = DIALECTS["llamacpp"]
    assert told(request_of(), dialect, model_of("llamacpp")).messages == MESSAGES
    thinks = model_of("llamacpp", think_tags=("<think>", "</think>"))
    assert len(told(request_of(), dialect, thinks).messages) == 3


def chunk(text: str) -> bytes:
    body = {"choices": [{"index": 0, "delta": {"content": text}}]}
    return b"data: " + json.dumps(body).encode() + b"\n\n"


END = b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'


@pytest.mark.parametrize("continues", [True, False])
def test_the_events_hold_what_is_new_alone(continues: bool) -> None:
    dialect, model = DIALECTS["openai-chat"], model_of("openai-chat")
    request = told(request_of(continues=continues), dialect, model)
    decoder = decoder_for(dialect, Asked(request=request, model=model))
    said = ["The moon", " pulls on", " the wat", "er, and", " so on."]
    events = [event for text in said for event in decoder.feed(chunk(text))]
    events += decoder.feed(END)
    finish = decoder.finish(clean=True)
    text = "".join(e.delta for e in [*events, *finish.events] if isinstance(e, TextDelta))
    assert text == ("er, and so on." if continues else "".join(said))
    assert finish.error is None


def test_what_was_held_back_is_told_when_the_answer_breaks_off() -> None:
    dialect, model = DIALECTS["openai-chat"], model_of("openai-chat")
    request = told(request_of(), dialect, model)
    for stop in ("finish", "abandon"):
        decoder = decoder_for(dialect, Asked(request=request, model=model))
        assert decoder.feed(chunk("pulls on the")) == []
        events = decoder.abandon() if stop == "abandon" else decoder.finish(clean=False).events
        assert [e.delta for e in events if isinstance(e, TextDelta)] == [" pulls on the"]
