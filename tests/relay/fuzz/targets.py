"""What is fuzzed: every parser that reads what strangers send, with what must hold of each.

A target takes one input in the pieces it arrives in. Its parser may raise nothing but what it
documents, which the target expects; everything else is a find.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING, Final

import msgspec

from relay.dialects import DIALECTS, Asked, Decoder, decoder_for
from relay.events import encode_event
from relay.fold import fold
from relay.wire.detok import Detokenizer, Vocabulary
from relay.wire.partial_json import parse_partial
from relay.wire.sse import EventTooLarge, SseDecoder
from relay.wire.stops import StopScanner
from tests.relay.dialects.corpus import MODEL, REQUEST

if TYPE_CHECKING:
    from relay.events import Event

Target = Callable[[Sequence[bytes]], None]

VOCABULARY: Final = Vocabulary(
    pieces={n: bytes([n]) for n in range(256)} | {300: " héllo".encode(), 301: b"\xf0\x9f"},
    special=frozenset({0, 2}),
)


def new_decoder(name: str, *, wrapped: bool = False) -> Decoder:
    """The decoder of one answer; `wrapped`: with think tags and stop strings."""
    model, request = replace(MODEL, dialect=name), REQUEST
    if wrapped:
        model = replace(model, think_tags=("<think>", "</think>"))
        request = msgspec.structs.replace(request, stop=["\n\n", "stop", "aab"])
    return decoder_for(DIALECTS[name], Asked(request=request, model=model, vocabulary=VOCABULARY))


def _dialect(name: str) -> Target:
    def target(pieces: Sequence[bytes]) -> None:
        for wrapped, ending in product((False, True), ("eof", "reset", "abandon")):
            decoder = new_decoder(name, wrapped=wrapped)
            events: list[Event] = []
            for piece in pieces:
                events += decoder.feed(piece)
            if decoder.over:
                assert decoder.feed(b"data: more\n\n") == []
            if ending == "abandon":
                events += decoder.abandon()
            else:
                finish = decoder.finish(clean=ending == "eof")
                events += finish.events
                if finish.error is not None:
                    assert finish.finish_reason is None
                    assert str(MODEL.api_key) not in finish.error.message
                    assert finish.error.message.encode()
            for seq, event in enumerate(events, start=1):
                encode_event(event, seq)  # also: nothing in it that cannot be encoded
            assert all(c.error or c.arguments is not None for c in fold(events).tool_calls)

    return target


def _refusals(pieces: Sequence[bytes]) -> None:
    for name, dialect in DIALECTS.items():
        for status in (302, 400, 429, 500):
            error = dialect.error_of_body(status, b"".join(pieces), MODEL)
            assert error.message.encode(), name
            assert str(MODEL.api_key) not in error.message


def _sse(pieces: Sequence[bytes]) -> None:
    fields = frozenset({b"error"})
    decoder = SseDecoder(max_event_bytes=4096, extra_fields=fields)
    whole = SseDecoder(extra_fields=fields)
    expected = whole.feed(b"".join(pieces)) + whole.finish()
    frames = []
    try:
        for piece in pieces:
            frames += decoder.feed(piece)
        frames += decoder.finish()
    except EventTooLarge as error:
        frames += error.frames
        assert frames == expected[: len(frames)]
    else:
        assert frames == expected


def _detok(pieces: Sequence[bytes]) -> None:
    ids = [n + 256 * (n % 7 == 0) for n in b"".join(pieces)]
    detok, whole = Detokenizer(VOCABULARY), Detokenizer(VOCABULARY)
    shown = "".join(detok.feed(ids[at : at + 3]) for at in range(0, len(ids), 3))
    assert shown + detok.finish() == whole.feed(ids) + whole.finish()
    assert detok.count == len(ids)


def _stops(pieces: Sequence[bytes]) -> None:
    """The first piece says what the stop strings are."""
    first, *rest = [piece.decode("utf-8", "replace") for piece in pieces] or [""]
    stops = [stop for stop in first.split(" ") if stop]
    scanner, text = StopScanner(stops), "".join(rest)
    shown = "".join(map(scanner.feed, rest)) + scanner.finish()
    assert text.startswith(shown)
    assert not any(stop in shown for stop in stops)
    assert (scanner.match is None) == (shown == text)


def _partial_json(pieces: Sequence[bytes]) -> None:
    data = b"".join(pieces)
    got = parse_partial(data)
    json.dumps(got.value, ensure_ascii=False).encode()
    assert not (got.complete and got.error)
    if got.error in ("invalid", "too_deep", "out_of_range"):
        # What is wrong stays wrong, whatever follows.
        assert parse_partial(data + b'0"]}').error in ("invalid", "too_deep", "out_of_range")


TARGETS: Final[Mapping[str, Target]] = {
    **{name: _dialect(name) for name in DIALECTS},
    "refusals": _refusals,
    "sse": _sse,
    "detok": _detok,
    "stops": _stops,
    "partial_json": _partial_json,
}
