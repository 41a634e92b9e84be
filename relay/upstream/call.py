"""One request to a provider, from its first byte to why it ended.

Bytes are handed to the dialect as they come off the socket; whoever iterates gets one list of
events per read that held any. The end is decided by the dialect: a lost connection after the model
said that it stopped is no failure, a clean end without that is one.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Final, Self

import aiohttp
import httpx

from relay.errors import ErrorKind, UpstreamError

if TYPE_CHECKING:
    from relay.dialects import Decoder, Finish
    from relay.events import Event
    from relay.upstream.silence import Silence

LINGER_S: Final = 5.0
"""After the model has stopped only usage and the end marker are due. A server that holds them back
for longer keeps nobody waiting."""
DRAIN_S: Final = 0.05
"""After the end marker the body's last bytes are usually there already; with them the connection
can be used again. Worth this much time and no more."""
DRAIN_BYTES: Final = 64 * 1024
CLOSE_S: Final = 1.0
"""The connection is aborted at once; this bounds what the library may still do about it."""

LOST: Final = (httpx.HTTPError, aiohttp.ClientError, OSError)
"""What the libraries raise when a connection breaks."""


class Call:
    """An opened upstream, iterated by the task that opened it.

    Iterating raises UpstreamError when the answer failed, after the last events were handed out.
    """

    def __init__(
        self,
        response: httpx.Response,
        chunks: AsyncGenerator[bytes, None],
        decoder: Decoder,
        silence: Silence,
        *,
        started_s: float,
        read_s: float,
    ) -> None:
        self.finish: Finish | None = None
        """Why it ended; None until the iteration is over."""
        self._response = response
        self._chunks = chunks
        self._decoder = decoder
        self._silence = silence
        self._waits_since_s: float | None = started_s  # None after the first byte
        self._read_s = read_s
        self._lingering = False
        self._at_eof = False

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> list[Event]:
        if self.finish is not None:
            self._raise_end(self.finish)
        decoder, silence, chunks = self._decoder, self._silence, self._chunks
        while True:
            silence.begin(self._waits_since_s)
            try:
                data = await anext(chunks)
            except StopAsyncIteration:
                self._at_eof = True
                return self._end(decoder.finish(clean=True))
            except asyncio.CancelledError:
                if not silence.ended_wait():
                    raise
                return self._end(decoder.finish(clean=False), self._silent())
            except httpx.DecodingError:
                return self._end(decoder.finish(clean=False), _undecodable())
            except LOST:
                return self._end(decoder.finish(clean=False))
            finally:
                silence.end()
            if self._waits_since_s is not None:
                self._waits_since_s = None
                silence.change_limit(self._read_s)
            events = decoder.feed(data)
            if decoder.over:
                return self._end(decoder.finish(clean=True), events=events)
            if decoder.finishing and not self._lingering:
                self._lingering = True
                silence.change_limit(min(LINGER_S, self._read_s))
            if events:
                return events

    @property
    def counted_output_ids(self) -> int | None:
        """Tokens that came as ids so far; None where text comes."""
        return self._decoder.counted_output_ids

    def abandon(self) -> list[Event]:
        """The events that a stop of ours leaves to be told: calls left open, the last usage."""
        return [] if self.finish is not None else self._decoder.abandon()

    async def aclose(self) -> None:
        """Give the connection back if the answer was read to its end, else abort it at once."""
        if self.finish is not None and self.finish.error is None and not self._at_eof:
            await self._drain()
        self._silence.close()
        await close(self._response, self._chunks)

    def _end(
        self,
        finish: Finish,
        instead: UpstreamError | None = None,
        events: list[Event] | None = None,
    ) -> list[Event]:
        """The last events, if any. `instead` is a better name for a connection that was lost."""
        if instead is not None and finish.error and finish.error.kind is ErrorKind.CONNECTION:
            finish = type(finish)(events=finish.events, error=instead)
        self.finish = finish
        last = [*(events or ()), *finish.events]
        if not last:
            self._raise_end(finish)
        return last

    def _raise_end(self, finish: Finish) -> None:
        if finish.error is not None:
            raise finish.error
        raise StopAsyncIteration

    def _silent(self) -> UpstreamError:
        limit_s = self._silence.limit_s
        if self._waits_since_s is not None:
            return late(limit_s)
        return UpstreamError(
            ErrorKind.STALLED,
            f"The provider fell silent: nothing came for {limit_s:g} s.",
        )

    async def _drain(self) -> None:
        read = 0
        try:
            async with asyncio.timeout(DRAIN_S):
                while read < DRAIN_BYTES:
                    read += len(await anext(self._chunks))
        except (StopAsyncIteration, TimeoutError, *LOST):
            pass


def late(limit_s: float) -> UpstreamError:
    return UpstreamError(
        ErrorKind.TIMEOUT, f"The provider did not begin to answer within {limit_s:g} s."
    )


def _undecodable() -> UpstreamError:
    return UpstreamError(ErrorKind.PROTOCOL, "The provider's compressed answer is damaged.")


async def close(response: httpx.Response, chunks: AsyncGenerator[bytes, None]) -> None:
    """Close both, aborting a connection that still has something to say. Raises nothing of theirs.

    The abort happens before anything here can be interrupted.
    """
    try:
        async with asyncio.timeout(CLOSE_S):
            await response.aclose()
            await chunks.aclose()
    except (TimeoutError, *LOST):
        pass
