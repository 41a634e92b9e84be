"""Answers that went wrong, kept as files that `python -m relay.replay` reads (RELAY_CAPTURE_DIR).

Kept are: answers that failed, also by an HTTP status; and odd ones, which ended as if all was well
but without a reason, for a reason nobody knows, with a tool call that cannot be read, or without a
word. What a person's question was is not in them, keys and logins are covered; what the model said
is. Answers that people stopped are their business.

Keeping one must never disturb one: bytes are held while an answer runs, up to a bound, and written
by a thread; a full disk costs the file and one line in the server's log.
"""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
from contextlib import suppress
from contextvars import Context
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from relay.dialects.dialect import DecoderAround
from relay.dialects.recording import CORPUS_NAMES, Options, Recording, without_secrets
from relay.events import CONTENT, ToolCallInvalid
from relay.states import FinishReason

if TYPE_CHECKING:
    from relay.dialects import Asked, Decoder, Finish
    from relay.errors import UpstreamError
    from relay.events import Event

logger = logging.getLogger(__name__)

MAX_FILES: Final = 200
"""More are not looked at by anybody. The oldest make room: what fails now matters."""
MAX_STREAM_BYTES: Final = 1024 * 1024
"""Of one answer; more is cut off, which a file says of itself. Held in memory for every running
answer."""
MAX_TOTAL_BYTES: Final = 64 * 1024 * 1024
"""Of all files together."""
MAX_WAITING: Final = 8
"""Files that wait to be written; when a provider fails for everybody, the first ones tell enough.
"""
CLOSE_S: Final = 2.0


class Captures:
    """The folder. Belongs to the event loop in which it is first used."""

    def __init__(
        self,
        folder: Path,
        *,
        max_files: int = MAX_FILES,
        max_stream_bytes: int = MAX_STREAM_BYTES,
        max_total_bytes: int = MAX_TOTAL_BYTES,
    ) -> None:
        self.max_stream_bytes = max_stream_bytes
        self._folder = folder
        self._max_files = max_files
        self._max_total_bytes = max_total_bytes
        self._writing: set[asyncio.Task[None]] = set()
        self._one_at_a_time = asyncio.Lock()
        self._complained = False

    def tape(self, asked: Asked, status: int, content_type: str | None) -> Tape:
        return Tape(self, asked, status, content_type)

    def keep(self, recording: Recording, asked: Asked) -> None:
        """Write it when there is time. Raises nothing, also if it cannot be written."""
        if len(self._writing) >= MAX_WAITING:
            return
        task = asyncio.get_running_loop().create_task(
            self._keep(recording, asked), name="relay capture", context=Context()
        )
        self._writing.add(task)
        task.add_done_callback(self._writing.discard)

    async def aclose(self) -> None:
        """Wait for what is being written, but not for a disk that hangs."""
        if self._writing:
            await asyncio.wait(self._writing, timeout=CLOSE_S)

    async def _keep(self, recording: Recording, asked: Asked) -> None:
        async with self._one_at_a_time:
            try:
                await asyncio.to_thread(self._write, recording, asked)
            except (OSError, ValueError) as error:  # ValueError: no possible path
                if not self._complained:
                    logger.warning("RELAY_CAPTURE_DIR cannot be written: %s", error)
                self._complained = True
            else:
                self._complained = False
                logger.info("kept %s.json: %s", recording.name, recording.why)

    def _write(self, recording: Recording, asked: Asked) -> None:
        recording.chunks = without_secrets(recording.chunks, asked.model.api_key)
        if asked.vocabulary is not None:
            recording.read_with(asked.vocabulary)
        data = recording.to_json()
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._make_room(len(data))
        # Whoever lists the folder sees whole files only.
        unfinished = self._folder / f".{recording.name}.tmp"
        try:
            with open(unfinished, "xb", opener=_for_ourselves) as file:
                file.write(data)
            unfinished.replace(self._folder / f"{recording.name}.json")
        except OSError:
            with suppress(OSError):
                unfinished.unlink(missing_ok=True)
            raise

    def _make_room(self, size_bytes: int) -> None:
        """Delete the oldest of our files, and nothing else that lies there."""
        kept = sorted(self._folder.glob("capture-*.json"))  # by time, which is in the name
        sizes = [_size_bytes(path) for path in kept]
        while kept and (
            len(kept) >= self._max_files or sum(sizes) + size_bytes > self._max_total_bytes
        ):
            kept.pop(0).unlink(missing_ok=True)
            sizes.pop(0)


class Tape:
    """One answer while it comes."""

    def __init__(
        self, captures: Captures, asked: Asked, status: int, content_type: str | None
    ) -> None:
        self._captures = captures
        self._asked = asked
        self._status = status
        self._content_type = content_type
        self._chunks: list[bytes] = []
        self._left_bytes = captures.max_stream_bytes
        self._cut_bytes = 0

    def read(self, data: bytes) -> None:
        kept = data[: self._left_bytes]
        self._left_bytes -= len(kept)
        self._cut_bytes += len(data) - len(kept)
        if kept:
            self._chunks.append(kept)

    def refused(self, body: bytes, error: UpstreamError) -> None:
        """The provider answered with a status that is no success."""
        self.read(body)
        self.keep(error.kind.value, "eof")

    def watched(self, decoder: Decoder) -> Decoder:
        return _Watched(decoder, self)

    def keep(self, reason: str, end: str) -> None:
        """The answer is over, and `reason` is why it should be looked at."""
        model, now = self._asked.model, datetime.now(UTC)
        dialect = CORPUS_NAMES.get(model.dialect, model.dialect)
        name = f"capture-{now:%Y%m%dT%H%M%S.%fZ}-{dialect}-{reason}-{secrets.token_hex(3)}"
        options = None
        if model.think_tags is not None:
            options = Options(
                think_tags=model.think_tags, start_in_reasoning=model.start_in_reasoning
            )
        recording = Recording(
            name=name,
            kind="capture",
            quirk=reason,
            dialect=dialect,
            http_status=self._status,
            content_type=self._content_type,
            end="eof" if end == "eof" else "reset",
            options=options,
            stops=self._asked.request.stop or None,
            chunks=self._chunks,
            cut_bytes=self._cut_bytes,
            why=reason.replace("_", " "),
            source=f"model {model.name}",
        )
        self._captures.keep(recording, self._asked)


class _Watched(DecoderAround):
    """A decoder that tells the tape what goes in, and what came of it."""

    def __init__(self, inner: Decoder, tape: Tape) -> None:
        super().__init__(inner)
        self._tape = tape
        self._said = self._invalid = False

    def feed(self, data: bytes) -> list[Event]:
        self._tape.read(data)
        events = self._inner.feed(data)
        self._look(events)
        return events

    def finish(self, clean: bool) -> Finish:
        finish = self._inner.finish(clean)
        self._look(finish.events)
        if reason := self._odd(finish):
            self._tape.keep(reason, "eof" if clean else "reset")
        return finish

    def abandon(self) -> list[Event]:
        return self._inner.abandon()

    def _look(self, events: list[Event]) -> None:
        for event in events:
            self._said |= isinstance(event, CONTENT)
            self._invalid |= isinstance(event, ToolCallInvalid)

    def _odd(self, finish: Finish) -> str | None:
        """The word for what is wrong with an answer, None if nothing is."""
        if finish.error is not None:
            return finish.error.kind.value
        if self._invalid:
            return "invalid_tool_call"
        if finish.finish_reason is None:
            return "no_finish_reason"
        if finish.finish_reason is FinishReason.OTHER:
            return "unknown_finish_reason"
        if finish.finish_reason is FinishReason.STOP and not self._said:
            return "nothing_said"
        return None


def _for_ourselves(path: str, flags: int) -> int:
    """Answers belong to people: no other user of the machine reads them."""
    return os.open(path, flags, 0o600)


def _size_bytes(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:  # another process made room
        return 0
