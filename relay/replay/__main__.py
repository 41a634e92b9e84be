"""python -m relay.replay FILE…: what recorded answers come to, one JSON object per line.

A FILE is a case (the corpus' JSON format, which captures have too), or the raw body of an answer as
`curl -N` prints it, with `--dialect`; with `curl -i` its head is read as well. `-` is standard
input. `--save` writes a case, so that a report of a bug becomes a fixture.

Exit status: 0 when all were read, whatever they came to; 2 for input that is none, with one
sentence on standard error.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import sys
from pathlib import Path
from typing import Final

import msgspec

from relay.dialects.recording import (
    DIALECT_NAMES,
    NoRecording,
    Options,
    Recording,
    corpus_name,
)
from relay.replay.play import play
from relay.replay.result import expectation, result_of
from relay.upstream.tokenizer import TokenizerUnusable
from relay.upstream.vocabulary import tokenizer_of

_HEAD: Final = re.compile(rb"HTTP/[0-9.]+ ([0-9]{3})[^\n]*\n((?:[^\r\n][^\n]*\n)*)\r?\n")
_CONTENT_TYPE: Final = re.compile(rb"(?im)^content-type:[ \t]*([^\r\n]*)")


def main(argv: list[str] | None = None) -> int:
    options = _parser().parse_args(argv)
    if options.save and options.save.suffix == ".json" and len(options.files) > 1:
        print(
            "--save names one file, but there are several to save: name a folder.", file=sys.stderr
        )
        return 2
    status = 0
    for name in options.files:
        try:
            recording = _read(name, options)
            result = result_of(recording, asyncio.run(play(recording)))
            if options.save:
                recording.expect = expectation(result)
                result["name"] = _save(recording, options.save)
        except (NoRecording, TokenizerUnusable, OSError) as error:
            sentence = error.strerror if isinstance(error, OSError) else str(error)
            print(f"{name} cannot be replayed: {sentence}.", file=sys.stderr)
            status = 2
        else:
            # ASCII: a line stays one line for readers that also end them at U+2028.
            print(json.dumps(result), flush=True)
    return status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m relay.replay",
        description="Read recorded answers again and say what they come to.",
    )
    add = parser.add_argument
    add("files", nargs="+", metavar="FILE", help="a case, or a raw body with --dialect; - is stdin")
    add("--dialect", help=f"of a raw body: {', '.join(DIALECT_NAMES)}")
    add("--save", type=Path, metavar="PATH", help="write the case: a folder, or a name.json")
    raw = parser.add_argument_group("of a raw body")
    raw.add_argument("--status", type=int, default=200, help="HTTP status (default: 200)")
    raw.add_argument("--content-type", default=None)
    raw.add_argument("--end", choices=["eof", "reset", "cancel"], default="eof")
    raw.add_argument("--stop", action="append", metavar="TEXT", help="a stop string of the request")
    raw.add_argument("--think-tags", nargs=2, metavar=("OPEN", "CLOSE"))
    raw.add_argument("--start-in-reasoning", action="store_true")
    raw.add_argument("--tokenizer", help="tokenizer.json or GGUF, for answers in token ids")
    return parser


def _read(name: str, options: argparse.Namespace) -> Recording:
    """Raises NoRecording, TokenizerUnusable, OSError."""
    path = Path("stdin" if name == "-" else name)
    data = sys.stdin.buffer.read() if name == "-" else path.read_bytes()
    if _looks_like_a_case(data):
        recording = Recording.from_json(data)
        recording.name = recording.name or path.stem
        return recording
    if options.dialect is None:
        raise NoRecording("it is no recorded case, and a raw body needs --dialect")
    status, content_type, body = _without_head(data)
    recording = Recording(
        name=path.stem,
        dialect=corpus_name(options.dialect),
        http_status=status or options.status,
        content_type=options.content_type or content_type,
        end=options.end,
        stops=options.stop,
        chunks=[body],
    )
    if options.think_tags or options.start_in_reasoning:
        recording.options = Options(
            think_tags=tuple(options.think_tags) if options.think_tags else None,
            start_in_reasoning=options.start_in_reasoning,
        )
    if options.tokenizer:
        recording.read_with(tokenizer_of(options.tokenizer).vocabulary)
    return recording


def _looks_like_a_case(data: bytes) -> bool:
    try:
        value = msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError):
        return False
    return isinstance(value, dict) and "dialect" in value and "chunks" in value


def _without_head(data: bytes) -> tuple[int | None, str | None, bytes]:
    """Status, content type and body of what `curl -i` printed; interim answers are passed over."""
    status, content_type = None, None
    while head := _HEAD.match(data):
        status, data = int(head[1]), data[head.end() :]
        named = _CONTENT_TYPE.search(head[2])
        content_type = named[1].decode("latin-1").strip() if named else None
    return status, content_type, data


def _save(recording: Recording, where: Path) -> str:
    """Write the case and return its name, which is the file's. Raises OSError."""
    if where.suffix != ".json":
        where.mkdir(parents=True, exist_ok=True)
        where = where / f"{recording.name}.json"
    recording.name = where.stem
    where.write_bytes(recording.to_json())
    return recording.name


if __name__ == "__main__":
    sys.exit(main())
