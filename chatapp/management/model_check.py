"""Whether a model of the models file works: one small question, looked at closely.

No retries and no fallbacks here: what is asked is whether this one upstream answers as it should.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit, urlunsplit

import httpx

import relay
from relay import (
    CONTENT,
    DIALECTS,
    ErrorKind,
    Event,
    GenerationRequest,
    UpstreamError,
    new_response_id,
    now_rfc3339,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from relay import ModelConfig, Snapshot, Upstream

LONGEST_S: Final = 120.0
"""For one answer of a few dozen words, also of a model that must be loaded first."""
APART_S: Final = 0.005
"""Pieces that come within this time were collected on their way; a fast provider takes ten times as
long for the words that are asked for."""
FREED_S: Final = 5.0
"""An engine that still works on an answer this long after its connection was closed did not
notice. Between two batches of a prompt it takes up to a second (DECISIONS 7)."""
LOOK_S: Final = 0.02
WORDS_TOKENS: Final = 64
STORY_TOKENS: Final = 1024

TOOL: Final[dict[str, Any]] = {
    "type": "function",
    "name": "get_weather",
    "description": "The weather in a city, now.",
    "parameters": {
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
    },
}


@dataclass(frozen=True, slots=True)
class Finding:
    what: str
    works: bool | None
    """None: it was not tried."""
    words: str


@dataclass(slots=True)
class Heard:
    """One whole answer: its events, and when pieces with content came."""

    events: list[Event] = field(default_factory=list)
    at_s: list[float] = field(default_factory=list)
    """Seconds after the request."""
    error: UpstreamError | None = None

    @property
    def snapshot(self) -> Snapshot:
        return relay.fold(self.events)


async def check(
    upstream: Upstream, model: ModelConfig, *, key_variable: str | None, tools: bool = False
) -> AsyncIterator[Finding]:
    """What works, finding by finding. After a first one that failed there are no others.

    `key_variable` is the one that the models file names; `tools`: try them undeclared as well.
    """
    if key_variable and not model.api_key:
        words = f"{key_variable} is not set in this environment, so nothing was asked."
        yield Finding("connects", False, words)
        return
    heard = await _hear(upstream, model, "Count from one to twenty in words.", WORDS_TOKENS)
    if heard.error is not None and not heard.at_s:
        yield Finding("connects", False, _why(heard.error, model, key_variable))
        return
    yield Finding("connects", True, _first_piece(heard))
    yield _streams(heard)
    yield _usage(heard)
    if tools or "tools" in model.supports:
        yield await _tools(upstream, model, key_variable)
    else:
        yield Finding("tools", None, "`supports` does not name them; --tools tries all the same")
    yield await _abort(upstream, model, key_variable)


def address(model: ModelConfig) -> str:
    """Where it is asked, as it may be shown: without a password."""
    parts = urlsplit(model.base_url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


def _asked(model: ModelConfig, text: str, tokens: int, **more: Any) -> GenerationRequest:
    return GenerationRequest(
        response_id=new_response_id(),
        model=model.name,
        messages=[{"role": "user", "content": text}],
        created_at=now_rfc3339(),
        max_output_tokens=tokens,
        **more,
    )


async def _hear(
    upstream: Upstream, model: ModelConfig, text: str, tokens: int, **more: Any
) -> Heard:
    heard = Heard()
    begun_s = time.monotonic()
    try:
        async with (
            asyncio.timeout(LONGEST_S),
            upstream.open(_asked(model, text, tokens, **more), model) as call,
        ):
            async for events in call:
                heard.events += events
                if any(isinstance(event, CONTENT) for event in events):
                    heard.at_s.append(time.monotonic() - begun_s)
    except UpstreamError as error:
        heard.error = error
    except TimeoutError:
        words = f"The answer had no end within {LONGEST_S:g} s."
        heard.error = UpstreamError(ErrorKind.TIMEOUT, words)
    return heard


def _why(error: UpstreamError, model: ModelConfig, key_variable: str | None) -> str:
    """What went wrong, and where to look."""
    said = error.message
    url = address(model).rstrip("/") + DIALECTS[model.dialect].path_of(model)
    match error.kind:
        case ErrorKind.AUTHENTICATION | ErrorKind.PERMISSION if key_variable:
            return f"The key in {key_variable} was refused. {said}"
        case ErrorKind.AUTHENTICATION | ErrorKind.PERMISSION:
            return f"It wants a key, and the models file names no api_key_env. {said}"
        case ErrorKind.NOT_FOUND:
            names = f"base_url or upstream_model ({model.upstream_model})"
            return f"{url} does not have that: {names} may be wrong. {said}"
        case ErrorKind.CONNECTION:
            return f"{urlsplit(url).netloc}: {said}"
        case _:
            return f"{said} ({error.kind.value})"


def _first_piece(heard: Heard) -> str:
    if not heard.at_s:
        return "It answered, without a word."
    return f"first piece after {heard.at_s[0] * 1000:.0f} ms"


def _streams(heard: Heard) -> Finding:
    pieces = len(heard.at_s)
    if heard.error is not None:
        words = f"It broke off after {pieces} pieces. {heard.error.message}"
        return Finding("streams", False, words)
    if pieces < 2:
        what = "no text came" if not pieces else "the answer came in one piece"
        return Finding("streams", False, f"{what}; a proxy on the way may collect it")
    span_s = heard.at_s[-1] - heard.at_s[0]
    if span_s < APART_S:
        words = f"all {pieces} pieces came at once; a proxy on the way may collect them"
        return Finding("streams", False, words)
    return Finding("streams", True, f"{pieces} pieces within {span_s * 1000:.0f} ms")


def _usage(heard: Heard) -> Finding:
    usage = heard.snapshot.usage
    if usage is None:
        return Finding("usage", False, "none was told; answers are counted by us")
    return Finding("usage", True, f"{usage.input_tokens} tokens in, {usage.output_tokens} out")


async def _tools(upstream: Upstream, model: ModelConfig, key_variable: str | None) -> Finding:
    text = f"What is the weather in Paris? Call {TOOL['name']}."
    heard = await _hear(upstream, model, text, STORY_TOKENS, tools=[TOOL])
    if heard.error is not None:
        return Finding("tools", False, _why(heard.error, model, key_variable))
    calls = heard.snapshot.tool_calls
    if not calls:
        return Finding("tools", False, "it answered in words instead of calling the tool")
    call = calls[0]
    if call.arguments is None:
        return Finding("tools", False, f"the arguments of its call are not usable: {call.error}")
    return Finding("tools", True, f"it called {call.name}")


async def _abort(upstream: Upstream, model: ModelConfig, key_variable: str | None) -> Finding:
    """Leave in mid-answer. An engine that tells of its slots shows whether it noticed."""
    slots = Slots(model)
    before = await slots.busy()
    ours: set[int] = set()
    spoke = False
    try:
        async with (
            asyncio.timeout(LONGEST_S),
            upstream.open(_asked(model, "Write a long story.", STORY_TOKENS), model) as call,
        ):
            async for events in call:
                if any(isinstance(event, CONTENT) for event in events):
                    spoke = call.finish is None
                    ours = (await slots.busy() or set()) - (before or set())
                    break
            left_s = time.monotonic()
    except UpstreamError as error:
        return Finding("abort", False, _why(error, model, key_variable))
    except TimeoutError:
        return Finding("abort", False, f"nothing to stop came within {LONGEST_S:g} s")
    closed_ms = (time.monotonic() - left_s) * 1000
    if not spoke:
        return Finding("abort", None, "the answer was over before it could be stopped")
    if not ours:
        return Finding("abort", True, f"closed in {closed_ms:.0f} ms")
    while ours & (await slots.busy() or set()):
        if time.monotonic() - left_s > FREED_S:
            return Finding("abort", False, f"the engine still works on it after {FREED_S:g} s")
        await asyncio.sleep(LOOK_S)
    freed_ms = (time.monotonic() - left_s) * 1000
    return Finding("abort", True, f"the engine's slot was free {freed_ms:.0f} ms later")


class Slots:
    """llama.cpp's `/slots`, asked only of what may be such an engine: one of ours, or near."""

    def __init__(self, model: ModelConfig) -> None:
        root = model.base_url.rstrip("/").removesuffix("/v1")
        near = model.dialect == "openai-chat" and _is_near(urlsplit(root).hostname or "")
        self._url = f"{root}/slots" if near or model.dialect == "llamacpp" else None
        self._headers = {"Authorization": f"Bearer {model.api_key}"} if model.api_key else {}

    async def busy(self) -> set[int] | None:
        """The tasks that are worked on. None: nobody tells."""
        if self._url is None:
            return None
        try:
            async with httpx.AsyncClient(timeout=2.0) as client:
                reply = await client.get(self._url, headers=self._headers)
            return {slot["id_task"] for slot in reply.json() if slot["is_processing"]}
        except (httpx.HTTPError, ValueError, TypeError, KeyError):  # another kind of server
            return None


def _is_near(host: str) -> bool:
    try:
        return ip_address(host).is_private
    except ValueError:
        return host == "localhost"
