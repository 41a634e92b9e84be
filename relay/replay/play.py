"""Feeding a recorded answer to what reads real ones, and asking how it ended.

`Call` reads it, with the decoder that the request would get, and the end is worked out as a
generation does it. Only the socket is missing: nothing here decides anything about an answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import httpx

from relay.dialects import DIALECTS, decoder_for
from relay.dialects.recording import DIALECT_NAMES
from relay.errors import UpstreamError
from relay.generate.end import End
from relay.states import StopReason
from relay.upstream import Call
from relay.upstream.client import MAX_ERROR_BYTES
from relay.upstream.silence import Silence

if TYPE_CHECKING:
    from relay.dialects import Asked, Dialect
    from relay.dialects.recording import Recording
    from relay.events import Event


@dataclass(frozen=True, slots=True)
class Played:
    """What viewers would have been told, in order, and how it ended."""

    events: list[Event]
    end: End


async def play(recording: Recording) -> Played:
    """Read `recording` to its end, or to where its reader stopped."""
    asked = recording.asked()
    dialect = DIALECTS[DIALECT_NAMES[recording.dialect]]
    if not httpx.codes.is_success(recording.http_status):
        return Played([], End.of_upstream_error(_refusal(dialect, recording, asked)))
    events: list[Event] = []
    reads = _reads(recording)
    call = Call(
        httpx.Response(recording.http_status),
        reads,
        decoder_for(dialect, asked),
        Silence(60.0),  # nothing here takes time
        started_s=asyncio.get_running_loop().time(),
        read_s=60.0,
    )
    try:
        async for batch in call:
            events += batch
        end = End.finished(call.finish.finish_reason if call.finish else None)
    except asyncio.CancelledError:
        if recording.end != "cancel":
            raise
        events += call.abandon()
        end = End.cancelled(StopReason.USER)
    except UpstreamError as error:
        end = End.of_upstream_error(error)
    finally:
        # A call that has its answer reads on to give the connection back: not into the stop, which
        # came too late.
        await reads.aclose()
        await call.aclose()
    return Played(events, end)


async def _reads(recording: Recording) -> AsyncGenerator[bytes, None]:
    """The chunks, and then what came after them as the socket would have told it."""
    for chunk in recording.chunks:
        yield chunk
    if recording.end == "reset":
        raise httpx.ReadError("the recorded connection was reset")
    if recording.end == "cancel":
        raise asyncio.CancelledError


def _refusal(dialect: Dialect, recording: Recording, asked: Asked) -> UpstreamError:
    body = b"".join(recording.chunks)[:MAX_ERROR_BYTES]
    return dialect.error_of_body(recording.http_status, body, asked.model)
