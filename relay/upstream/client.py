"""Opening calls to providers: what is sent, and what every kind of refusal is called."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import aiohttp
import httpx
import msgspec

from relay.dialects import DIALECTS, Asked, Dialect, decoder_for, told
from relay.errors import ErrorKind, UpstreamError
from relay.upstream.call import LOST, Call, close, late
from relay.upstream.capture import Captures, Tape
from relay.upstream.connections import Connections
from relay.upstream.prompts import read_prompt, with_ids
from relay.upstream.retry_after import retry_after_s
from relay.upstream.silence import Silence
from relay.upstream.unpack import unpacked

if TYPE_CHECKING:
    from relay.config import ModelConfig, RelayConfig
    from relay.request import GenerationRequest

MAX_ERROR_BYTES: Final = 64 * 1024
"""Of the body of a refusal. What a provider has to say fits; a proxy's page is not read to its end.
"""
ERROR_BODY_S: Final = 10.0
PIECE_BYTES: Final = 256 * 1024
"""Larger requests, such as pictures, are written piece by piece, so that others get their turn."""


class Upstream:
    """The client for all providers. One per event loop; `aclose` it there."""

    def __init__(self, config: RelayConfig, *, dialects: Mapping[str, Dialect] = DIALECTS) -> None:
        self._config = config
        self._dialects = dialects
        self._connections = Connections()
        self._captures = Captures(Path(config.capture_dir)) if config.capture_dir else None

    async def aclose(self) -> None:
        await self._connections.aclose()
        if self._captures is not None:
            await self._captures.aclose()

    def open(
        self, request: GenerationRequest, model: ModelConfig, *, stream: bool = True
    ) -> Opening:
        """Ask when entered; the context's body runs once the provider has accepted.

        Leaving the context closes the connection: given back if the answer was read to its end,
        aborted otherwise. Entering raises UpstreamError when the provider cannot be reached,
        refuses, or does not begin to answer within `first_byte_s`.
        """
        return Opening(partial(self._ask, request, model, stream=stream))

    async def _ask(self, request: GenerationRequest, model: ModelConfig, *, stream: bool) -> Call:
        config, dialect = self._config, self._dialects[model.dialect]
        first_byte_s = _given(model.first_byte_s, config.first_byte_s)
        silence = Silence(first_byte_s)
        started_s = asyncio.get_running_loop().time()
        silence.begin(started_s)
        try:
            asked = await self._prepared(
                dialect, Asked(request=told(request, dialect, model), model=model, stream=stream)
            )
            decoder = decoder_for(dialect, asked)
            response = await self._send(
                dialect, asked, dialect.path_of(model), dialect.build(asked)
            )
        except asyncio.CancelledError:
            if silence.ended_wait():
                raise late(first_byte_s) from None
            raise
        finally:
            silence.end()
            silence.close()
        chunks = _chunks(response)
        tape = None
        if self._captures is not None:
            kind = response.headers.get("content-type")
            tape = self._captures.tape(asked, response.status_code, kind)
        if not response.is_success:
            raise await _refusal(response, chunks, dialect, model, tape)
        if tape is not None:
            decoder = tape.watched(decoder)
        return Call(
            response,
            chunks,
            decoder,
            silence,
            started_s=started_s,
            read_s=_given(model.read_s, config.read_s),
        )

    async def _prepared(self, dialect: Dialect, asked: Asked) -> Asked:
        """With the prompt, for an engine that wants one."""
        if dialect.prompt_ids:
            return await with_ids(asked)
        template = dialect.template
        if template is None:
            return asked
        response = await self._send(dialect, asked, template.path, template.build(asked))
        chunks = _chunks(response)
        if not response.is_success:
            raise await _refusal(response, chunks, dialect, asked.model)
        try:
            return replace(asked, prompt=await read_prompt(template, chunks))
        finally:
            await close(response, chunks)

    async def _send(
        self, dialect: Dialect, asked: Asked, path: str, content: dict[str, Any]
    ) -> httpx.Response:
        model = asked.model
        connect_s = _given(model.connect_s, self._config.connect_s)
        url = _url(model.base_url, path)
        body = msgspec.json.encode(content)
        request = partial(_post, url, body, dialect.headers(model), connect_s)
        try:
            return await self._connections.send(request)
        except aiohttp.ClientResponseError as error:
            raise UpstreamError(ErrorKind.PROTOCOL, "The provider's answer is not HTTP.") from error
        except httpx.UnsupportedProtocol as error:
            raise UpstreamError(
                ErrorKind.CONNECTION, "The provider's address is not valid.", retryable=False
            ) from error
        except LOST as error:
            raise UpstreamError(ErrorKind.CONNECTION, _unreachable(error)) from error


class Opening:
    """A call that closes itself. No generator: it would keep what was sent as long as the answer
    runs, and 1 KB of its own."""

    __slots__ = ("_ask", "_call")

    def __init__(self, ask: Callable[[], Coroutine[None, None, Call]]) -> None:
        self._ask = ask
        self._call: Call | None = None

    async def __aenter__(self) -> Call:
        self._call = await self._ask()
        del self._ask
        return self._call

    async def __aexit__(self, *_: object) -> None:
        if self._call is not None:
            await self._call.aclose()


@lru_cache(maxsize=256)  # parsing costs as much as sending; there are few models
def _url(base_url: str, path: str) -> httpx.URL:
    return httpx.URL(base_url.rstrip("/") + path)


def _post(
    url: httpx.URL, body: bytes, headers: Mapping[str, str], connect_s: float
) -> httpx.Request:
    return httpx.Request(
        "POST",
        url,
        headers={
            "User-Agent": "unbroken",
            # Compression only adds latency to a stream of small chunks; it is decoded anyway.
            "Accept-Encoding": "identity",
            "Content-Length": str(len(body)),
            **headers,
        },
        content=body if len(body) <= PIECE_BYTES else _pieces(body),
        # `pool` bounds name lookup and connecting together. Silence watches over reading.
        extensions={
            "timeout": {"connect": connect_s, "pool": connect_s, "read": None, "write": None}
        },
    )


async def _pieces(body: bytes) -> AsyncIterator[bytes]:
    for at in range(0, len(body), PIECE_BYTES):
        yield body[at : at + PIECE_BYTES]


def _given(value: float | None, default: float) -> float:
    return default if value is None else value


def _chunks(response: httpx.Response) -> AsyncGenerator[bytes, None]:
    """The body's bytes as they come, decoded if they are compressed."""
    # The transport's own stream, not aiter_raw: two generators fewer per chunk. And never
    # aiter_lines, which cuts lines where JSON does not (U+2028, U+0085, VT).
    stream = cast("httpx.AsyncByteStream", response.stream)
    coding = response.headers.get("content-encoding", "identity")
    chunks = aiter(stream) if coding == "identity" else unpacked(stream, coding)
    return cast("AsyncGenerator[bytes, None]", chunks)


async def _refusal(
    response: httpx.Response,
    chunks: AsyncGenerator[bytes, None],
    dialect: Dialect,
    model: ModelConfig,
    tape: Tape | None = None,
) -> UpstreamError:
    body = bytearray()
    try:
        async with asyncio.timeout(ERROR_BODY_S):
            async for chunk in chunks:
                body += chunk
                if len(body) > MAX_ERROR_BYTES:
                    break
    except (TimeoutError, *LOST):
        pass  # the status alone says enough
    finally:
        await close(response, chunks)
    error = dialect.error_of_body(response.status_code, bytes(body), model)
    if tape is not None:
        tape.refused(bytes(body), error)
    # Budget headers come with every answer; only with a 429 are they the reason to wait.
    asked = retry_after_s(
        response.headers, now=datetime.now(UTC), budgets=error.kind is ErrorKind.RATE_LIMIT
    )
    if asked is not None:
        error.retry_after_s = asked
    return error


def _unreachable(error: BaseException) -> str:
    if isinstance(error.__cause__, (aiohttp.ClientConnectorError, aiohttp.ServerTimeoutError)):
        return "The provider cannot be reached."
    return "The connection to the provider was lost before it answered."
