"""The same real model through two dialects: one text, whoever makes it of the tokens."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import replace
from typing import Any

import httpx
import pytest

from chatapp.management.engine import model_path
from relay.config import ModelConfig, RelayConfig
from relay.dialects import DIALECTS, Asked, Dialect
from relay.fold import Snapshot, fold
from relay.request import GenerationRequest
from relay.states import FinishReason
from relay.upstream import Upstream
from relay.upstream.vocabulary import tokenizer_of
from relay.wire.detok import Detokenizer
from tests.site import START_S, Proc
from tests.waiting import wait_until

pytestmark = [pytest.mark.process, pytest.mark.engine]

QUESTIONS = [
    "Name three colours.",
    "Repeat this exactly, five times: 👩‍💻 🇩🇪 ❤️ 🙂",
    "把这句话重复三遍：你好，世界。",  # noqa: RUF001
    "Write a Python function that adds two numbers, with a docstring.",
]
MAX_TOKENS = 40
# A prompt that is read in another number of batches gives other last bits, and so other words.
SAME = {"cache_prompt": False, "seed": 1}


@pytest.fixture(scope="module")
def engine_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("engine")
    address = folder / "address"
    argv = [sys.executable, "-m", "chatapp.management.engine", "--address-file", str(address)]
    proc = Proc("engine", argv, os.environ, folder / "log")
    try:
        asyncio.run(wait_until(address.exists, "the engine to be ready", timeout=START_S))
        yield address.read_text().strip()
    finally:
        proc.kill()


@pytest.fixture
async def upstream() -> AsyncIterator[Upstream]:
    client = Upstream(RelayConfig(), dialects={**DIALECTS, "unstopped": UNSTOPPED})
    yield client
    await client.aclose()


def _without_stop(asked: Asked) -> dict[str, Any]:
    body = DIALECTS["llamacpp"].build(asked)
    return {key: value for key, value in body.items() if key != "stop"}


UNSTOPPED: Dialect = replace(DIALECTS["llamacpp"], build=_without_stop)
"""An engine that is told of no stop strings: finding them is left to us."""


async def answer(
    upstream: Upstream, url: str, dialect: str, question: str, stop: Sequence[str] = ()
) -> tuple[Snapshot, FinishReason | None]:
    model = ModelConfig(
        name="m",
        dialect=dialect,
        base_url=f"{url}/v1" if dialect == "openai-chat" else url,
        upstream_model="smollm2",
        extra_body=SAME,
    )
    request = GenerationRequest(
        response_id="r1",
        model="m",
        messages=[{"role": "user", "content": question}],
        created_at="2026-03-01T12:00:00Z",
        temperature=0.0,
        max_output_tokens=MAX_TOKENS,
        stop=list(stop),
    )
    events = []
    async with upstream.open(request, model) as call:
        async for batch in call:
            events += batch
    assert call.finish is not None
    return fold(events), call.finish.finish_reason


@pytest.mark.parametrize("question", QUESTIONS)
async def test_both_dialects_give_the_same_text_and_usage(
    engine_url: str, upstream: Upstream, question: str
) -> None:
    chat, chat_reason = await answer(upstream, engine_url, "openai-chat", question)
    ours, reason = await answer(upstream, engine_url, "llamacpp", question)
    assert ours.text
    assert (ours.text, reason) == (chat.text, chat_reason)
    assert ours.usage is not None
    assert chat.usage is not None
    assert ours.usage.output_tokens == chat.usage.output_tokens
    assert ours.usage.input_tokens == chat.usage.input_tokens


@pytest.mark.parametrize("question", QUESTIONS)
async def test_a_stop_string_across_tokens_ends_all_at_the_same_place(
    engine_url: str, upstream: Upstream, question: str
) -> None:
    whole, _ = await answer(upstream, engine_url, "llamacpp", question)
    middle = len(whole.text) // 2
    # Odd places, so that most of them begin and end inside tokens.
    for stop in (whole.text[middle : middle + 3], whole.text[middle - 2 : middle + 5]):
        expected = whole.text[: whole.text.index(stop)]
        for dialect in ("openai-chat", "llamacpp", "unstopped"):
            given, reason = await answer(upstream, engine_url, dialect, question, [stop])
            assert (given.text, reason) == (expected, FinishReason.STOP), dialect


@pytest.mark.parametrize("question", QUESTIONS)
async def test_ids_that_are_complete_become_the_engines_own_text(
    engine_url: str, question: str
) -> None:
    path = model_path()
    assert path is not None
    tokenizer = tokenizer_of(str(path))
    assert tokenizer.encode is not None
    async with httpx.AsyncClient(base_url=engine_url, timeout=60) as client:
        conversation = {"messages": [{"role": "user", "content": question}]}
        prompt = (await client.post("/apply-template", json=conversation)).json()["prompt"]
        tokens = (await client.post("/tokenize", json={"content": prompt})).json()["tokens"]
        assert tokenizer.encode(prompt) == tokens
        body = {"prompt": prompt, "return_tokens": True, "n_predict": MAX_TOKENS, **SAME}
        body |= {"temperature": 0.0, "stream": True}
        text, ids, predicted = "", list[int](), 0
        async with client.stream("POST", "/completion", json=body) as reply:
            async for line in reply.aiter_lines():
                event = json.loads(line.removeprefix("data: ")) if line else {}
                text += event.get("content", "")
                if event.get("tokens_predicted", 0) > predicted:
                    predicted = event["tokens_predicted"]
                    ids += event["tokens"]
    decoder = Detokenizer(tokenizer.vocabulary)
    ours = "".join(decoder.feed([token]) for token in ids) + decoder.finish()
    assert predicted > 0
    assert len(ids) == predicted or not question.isascii()
    if len(ids) == predicted:
        assert ours == text
    else:  # the engine kept the beginnings of characters to itself
        assert len(ids) < predicted
