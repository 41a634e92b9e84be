"""Prompts for engines: the text by the engine or by a template of ours, the ids by a tokenizer."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from tokenizers import Tokenizer as Library
from tokenizers import decoders, models, pre_tokenizers

from relay.config import ModelConfig
from relay.errors import ErrorKind, UpstreamError
from relay.fold import fold
from tests.relay.upstream.hearing import asking

if TYPE_CHECKING:
    from relay.request import GenerationRequest
    from relay.upstream import Upstream

TEMPLATE = (
    "{%- for m in messages %}{{ bos_token }}{{ m.role }}: {{ m.content }}\n{%- endfor %}"
    "{% if add_generation_prompt %}assistant:{% endif %}{{ tone }}"
)


class Engine:
    """A server that answers everything from `answers`, by path, and keeps what it was sent."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, Any]] = []
        self.answers: dict[str, Callable[[], web.Response]] = {}
        self.url = ""

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.seen.append((request.path, await request.json()))
        return self.answers[request.path]()


def stream(*values: object) -> Callable[[], web.Response]:
    text = "".join(f"data: {json.dumps(v) if v != '[DONE]' else v}\n\n" for v in values)
    return lambda: web.Response(text=text, content_type="text/event-stream")


@pytest.fixture
async def engine() -> AsyncIterator[Engine]:
    made = Engine()
    application = web.Application()
    application.router.add_post("/{path:.*}", made.handle)
    async with TestServer(application) as server:
        made.url = str(server.make_url("/")).rstrip("/")
        yield made


@pytest.fixture
def files(tmp_path: Path) -> dict[str, str]:
    """A tokenizer whose tokens are bytes, one special token, and a template."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    library = Library(models.BPE(vocab={char: n for n, char in enumerate(alphabet)}, merges=[]))
    library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    library.decoder = decoders.ByteLevel()
    library.add_special_tokens(["<s>"])
    library.save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"bos_token": "<s>"}))
    (tmp_path / "chat.jinja").write_text(TEMPLATE)
    return {
        "tokenizer": str(tmp_path / "tokenizer.json"),
        "chat_template": str(tmp_path / "chat.jinja"),
    }


def ids_of(files: dict[str, str], text: str) -> list[int]:
    return list(Library.from_file(files["tokenizer"]).encode(text).ids)


async def ask(upstream: Upstream, engine: Engine, request: GenerationRequest, **model: Any) -> str:
    given = {"name": "m", "base_url": engine.url, "upstream_model": "u", **model}
    events = []
    async with upstream.open(request, ModelConfig(**given)) as call:
        async for batch in call:
            events += batch
    return fold(events).text


# -- llama.cpp ------------------------------------------------------------------------------------
async def test_llamacpp_is_asked_with_the_prompt_that_it_wrote(
    engine: Engine, upstream: Upstream
) -> None:
    engine.answers = {
        "/apply-template": lambda: web.json_response({"prompt": "<u>hi<a>"}),
        "/completion": stream(
            {"content": "yes", "tokens": [5], "tokens_predicted": 1, "stop": False},
            {"content": "", "stop": True, "stop_type": "eos", "tokens_predicted": 2},
        ),
    }
    request = msgspec.structs.replace(
        asking("hi"), instructions="Be brief.", max_output_tokens=9, temperature=0.0, stop=["#"]
    )
    extra = {"return_progress": True, "chat_template_kwargs": {"think": False}}
    text = await ask(upstream, engine, request, dialect="llamacpp", extra_body=extra)
    assert text == "yes"
    assert engine.seen == [
        (
            "/apply-template",
            {
                "messages": [
                    {"role": "system", "content": "Be brief."},
                    {"role": "user", "content": "hi"},
                ],
                "chat_template_kwargs": {"think": False},
            },
        ),
        (
            "/completion",
            {
                "prompt": "<u>hi<a>",
                "return_tokens": True,
                "n_predict": 9,
                "temperature": 0.0,
                "stop": ["#"],
                "return_progress": True,
                "stream": True,
            },
        ),
    ]


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (lambda: web.Response(status=503, text="loading"), ErrorKind.OVERLOADED),
        (
            lambda: web.json_response({"error": {"message": "roles", "code": 400}}, status=400),
            ErrorKind.INVALID_REQUEST,
        ),
        (lambda: web.json_response({"prompt": 3}), ErrorKind.PROTOCOL),
        (lambda: web.Response(text="<html>"), ErrorKind.PROTOCOL),
        (lambda: web.Response(text="[" * 100_000), ErrorKind.PROTOCOL),
    ],
)
async def test_an_engine_that_writes_no_prompt_is_not_asked_further(
    engine: Engine,
    upstream: Upstream,
    answer: Callable[[], web.Response],
    kind: ErrorKind,
) -> None:
    engine.answers = {"/apply-template": answer}
    with pytest.raises(UpstreamError) as failed:
        await ask(upstream, engine, asking("hi"), dialect="llamacpp")
    assert failed.value.kind is kind
    assert [path for path, _ in engine.seen] == ["/apply-template"]


# -- token ids ------------------------------------------------------------------------------------
async def test_vllm_is_asked_in_ids_and_read_in_ids(
    engine: Engine, upstream: Upstream, files: dict[str, str]
) -> None:
    answer = ids_of(files, "é😀") + ids_of(files, "<s>")
    engine.answers["/inference/v1/generate"] = stream(
        *({"choices": [{"index": 0, "token_ids": [n], "finish_reason": None}]} for n in answer),
        {"choices": [{"index": 0, "token_ids": [], "finish_reason": "stop"}]},
        "[DONE]",
    )
    extra = {"sampling_params": {"top_p": 0.5}, "chat_template_kwargs": {"tone": " (calm)"}}
    request = msgspec.structs.replace(asking("hé"), max_output_tokens=9, stop=["#"])
    text = await ask(upstream, engine, request, dialect="vllm-tokens", extra_body=extra, **files)
    assert text == "é😀"
    (path, body), *_ = engine.seen
    assert path == "/inference/v1/generate"
    assert body == {
        "model": "u",
        "token_ids": ids_of(files, "<s>user: héassistant: (calm)"),
        "sampling_params": {"max_tokens": 9, "detokenize": False, "top_p": 0.5},
        "stream_options": {"include_usage": True},
        "stream": True,
    }


async def test_a_base_url_of_v1_means_vllms_completions(
    engine: Engine, upstream: Upstream, files: dict[str, str]
) -> None:
    end = {"choices": [{"index": 0, "text": "", "token_ids": [], "finish_reason": "length"}]}
    engine.answers["/v1/completions"] = stream(end, "[DONE]")
    request = msgspec.structs.replace(asking("hi"), stop=["#"], temperature=0.5)
    url = f"{engine.url}/v1/"
    await ask(upstream, engine, request, dialect="vllm-tokens", **{"base_url": url, **files})
    assert engine.seen == [
        (
            "/v1/completions",
            {
                "model": "u",
                "prompt": ids_of(files, "<s>user: hiassistant:"),
                "return_token_ids": True,
                "max_tokens": None,
                "temperature": 0.5,
                "stop": ["#"],
                "stream_options": {"include_usage": True},
                "stream": True,
            },
        )
    ]


async def test_sglang_is_asked_in_ids_and_read_in_ids(
    engine: Engine, upstream: Upstream, files: dict[str, str]
) -> None:
    ids = ids_of(files, "你# never shown")
    meta = {"completion_tokens": len(ids), "finish_reason": {"type": "length"}}
    engine.answers["/generate"] = stream({"output_ids": ids, "meta_info": meta}, "[DONE]")
    request = msgspec.structs.replace(asking("hi"), stop=["#"], temperature=0.0)
    text = await ask(
        upstream, engine, request, dialect="sglang-tokens", max_output_tokens=50, **files
    )
    assert text == "你"
    assert engine.seen == [
        (
            "/generate",
            {
                "input_ids": ids_of(files, "<s>user: hiassistant:"),
                "sampling_params": {"max_new_tokens": 50, "temperature": 0.0},
                "stream": True,
            },
        )
    ]


@pytest.mark.parametrize("dialect", ["llamacpp", "vllm-tokens", "sglang-tokens"])
@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"tools": [{"type": "function", "name": "f"}]}, "tools"),
        (
            {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": "x"}]}]},
            "nothing but text",
        ),
    ],
)
async def test_what_a_prompt_cannot_say_is_refused_in_words(
    engine: Engine,
    upstream: Upstream,
    files: dict[str, str],
    dialect: str,
    change: dict[str, Any],
    says: str,
) -> None:
    request = msgspec.structs.replace(asking("hi"), **change)
    with pytest.raises(UpstreamError, match=says) as failed:
        await ask(upstream, engine, request, dialect=dialect, **files)
    assert failed.value.kind is ErrorKind.INVALID_REQUEST
    assert engine.seen == []


async def test_files_that_cannot_be_used_are_our_failure_and_not_shown(
    engine: Engine,
    upstream: Upstream,
    files: dict[str, str],
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    broken = tmp_path / "broken.json"
    broken.write_text("{")
    for key in files:
        model = {**files, key: str(broken)}
        with pytest.raises(UpstreamError) as failed:
            await ask(upstream, engine, asking("hi"), dialect="vllm-tokens", **model)
        assert (failed.value.kind, failed.value.retryable) == (ErrorKind.INTERNAL, False)
        assert "broken.json" not in failed.value.message
        assert "broken.json" in caplog.text
        caplog.clear()
