"""The upstream-stream corpora: what a case is, and what it takes to agree with it."""

from __future__ import annotations

import base64
import json
import random
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from relay.config import ModelConfig
from relay.dialects import DIALECTS, Asked, Finish, decoder_for
from relay.events import Event, PartMeta
from relay.fold import fold
from relay.request import GenerationRequest
from relay.states import FinishReason
from relay.wire.detok import Vocabulary

REQUEST = GenerationRequest(
    response_id="r1", model="m", messages=[], created_at="2026-03-01T12:00:00Z"
)
MODEL = ModelConfig(
    name="m", dialect="openai-chat", base_url="http://m/v1", upstream_model="u", api_key="k-secret"
)


NAMES = {
    "openai_chat": "openai-chat",
    "openai_responses": "openai-responses",
    "anthropic": "anthropic",
    "engine_llamacpp": "llamacpp",
    "engine_vllm": "vllm-tokens",
    "engine_sglang": "sglang-tokens",
}


def load(*dialects: str) -> list[dict[str, Any]]:
    """The cases of these dialects, by our names; without names all."""
    fixtures = Path(__file__).parents[2] / "fixtures"
    files = [
        path
        for corpus in ("corpus", "corpus_more")
        for path in sorted((fixtures / corpus / "cases").glob("*.json"))
    ]
    cases = [json.loads(path.read_text()) for path in files]
    found = [case for case in cases if not dialects or NAMES[case["dialect"]] in dialects]
    assert found, dialects
    return found


def chunks_of(case: dict[str, Any]) -> list[bytes]:
    return [base64.b64decode(chunk) for chunk in case["chunks"]]


def deliveries(case: dict[str, Any], random_splits: int) -> list[list[bytes]]:
    """As recorded, whole, byte by byte, and in random pieces, the same ones in every run."""
    data = b"".join(chunks_of(case))
    rng = random.Random(case["name"])
    pieces = []
    for _ in range(random_splits):
        at = sorted(rng.randrange(len(data) + 1) for _ in range(rng.randint(1, 9)))
        pieces.append([data[a:b] for a, b in zip([0, *at], [*at, len(data)], strict=True)])
    return [chunks_of(case), [data], [data[i : i + 1] for i in range(len(data))], *pieces]


@dataclass(slots=True)
class Result:
    events: list[Event]
    finish: Finish | None
    """None when we stopped reading."""


def asked_in(case: dict[str, Any]) -> Asked:
    """The question that a case is an answer to."""
    options = case.get("options") or {}
    model = replace(
        MODEL,
        dialect=NAMES[case["dialect"]],
        think_tags=tuple(options["think_tags"]) if "think_tags" in options else None,
        start_in_reasoning=bool(options.get("start_in_reasoning")),
    )
    request = msgspec.structs.replace(REQUEST, stop=case.get("stops") or [])
    vocabulary = None
    if "vocab" in case:
        vocabulary = Vocabulary(
            pieces={int(token): base64.b64decode(piece) for token, piece in case["vocab"].items()},
            special=frozenset(case.get("special") or ()),
        )
    return Asked(request=request, model=model, vocabulary=vocabulary)


def decode(case: dict[str, Any], chunks: list[bytes]) -> Result:
    asked = asked_in(case)
    spoken = DIALECTS[asked.model.dialect]
    if case["http_status"] != 200:
        error = spoken.error_of_body(case["http_status"], b"".join(chunks), MODEL)
        return Result([], Finish(error=error))
    decoder = decoder_for(spoken, asked)
    events = [event for chunk in chunks for event in decoder.feed(chunk)]
    if case["end"] == "cancel":
        return Result(events + decoder.abandon(), None)
    finish = decoder.finish(case["end"] == "eof")
    return Result(events + finish.events, finish)


def disagreements(result: Result, case: dict[str, Any]) -> dict[str, Any]:
    """What differs from `expect`, or from the nearest of the accepted alternatives."""
    expects = [case["expect"], *({**case["expect"], **other} for other in case.get("accept", []))]
    return min((_differences(result, expect) for expect in expects), key=len)


def _differences(result: Result, expect: dict[str, Any]) -> dict[str, Any]:
    snapshot = fold(result.events)
    finish = result.finish
    error = finish.error if finish is not None else None
    state, reason = "cancelled", None
    if error is not None:
        state = "failed"
    elif finish is not None:
        reason = finish.finish_reason
        short = reason in (FinishReason.LENGTH, FinishReason.CONTENT_FILTER)
        state = "incomplete" if short else "completed"
    got: dict[str, Any] = {
        "text": snapshot.text,
        "reasoning": snapshot.reasoning,
        "terminal_state": state,
        "error_kind": error and error.kind.value,
    }
    if state not in ("failed", "cancelled"):
        got["finish_reason"] = reason
    if expect.get("retryable") is not None:
        got["retryable"] = error is not None and error.retryable
    if "refusal" in expect:
        got["refusal"] = snapshot.refusal
    if state == "incomplete":
        got["incomplete_reason"] = "max_tokens" if reason == "length" else "content_filter"
    differing = {
        name: (value, expect.get(name))
        for name, value in got.items()
        if (value or None) != (expect.get(name) or None)
    }
    if not _calls_agree(result, expect.get("tool_calls") or []):
        differing["tool_calls"] = (snapshot.tool_calls, expect["tool_calls"])
    if (usage := expect.get("usage")) is None:
        if snapshot.usage is not None:
            differing["usage"] = (snapshot.usage, None)
    else:
        for name, value in usage.items():
            if name in ("total_tokens", "cache_write_tokens"):
                continue  # not in our schema
            ours = {"cached_tokens": "cached_input_tokens"}.get(name, name)
            if getattr(snapshot.usage, ours, None) != value:
                differing[f"usage.{name}"] = (snapshot.usage, value)
    for name, kind in (("signatures", "signature"), ("redacted", "redacted_thinking")):
        if name in expect:
            said = [m.data for m in snapshot.meta if m.kind == kind]
            signed = [data.get("signature") or data.get("data") for data in said]
            if signed != expect[name]:
                differing[name] = (signed, expect[name])
    if "citations" in expect:
        citations = sum(meta.kind == "citation" for meta in snapshot.meta)
        if citations != expect["citations"]:
            differing["citations"] = (citations, expect["citations"])
    return differing


def _calls_agree(result: Result, expected: list[dict[str, Any]]) -> bool:
    calls = fold(result.events).tool_calls
    ids = [call.call_id for call in calls]
    if len(calls) != len(expected) or len(set(ids)) != len(ids) or not all(ids):
        return False
    for call, expect in zip(calls, expected, strict=True):
        if call.name != expect["name"] or expect["id"] not in (None, call.call_id):
            return False
        if "error" in expect:
            if call.error is None or call.raw != expect.get("raw", call.raw):
                return False
        elif call.error is not None or call.arguments != expect["arguments"]:
            return False
        if "signature" in expect and not any(
            isinstance(event, PartMeta) and expect["signature"] in str(event.data)
            for event in result.events
        ):
            return False
    return True
