"""What is kept of answers that went wrong, and that keeping it harms nobody."""

from __future__ import annotations

import base64
import json
import logging
import stat
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from relay.dialects import DIALECTS, Asked, decoder_for
from relay.dialects.recording import Recording, without_secrets
from relay.errors import ErrorKind
from relay.replay import play, result_of
from relay.upstream import Upstream
from relay.upstream.capture import MAX_WAITING, Captures
from relay.wire.detok import Vocabulary
from tests.relay.dialects.corpus import MODEL, REQUEST
from tests.relay.upstream.hearing import QUICK, hear
from tests.scripted import Close, Done, EndBody, Raw, Reset, Say, ScriptedUpstream, Send, Status

Watching = Callable[[], AbstractAsyncContextManager[Upstream]]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "new" / "captures"


@pytest.fixture
def watching(folder: Path) -> Watching:
    @asynccontextmanager
    async def client() -> AsyncIterator[Upstream]:
        upstream = Upstream(replace(QUICK, capture_dir=str(folder)))
        try:
            yield upstream
        finally:
            await upstream.aclose()

    return client


def kept(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(path.read_bytes()) for path in files(folder)]


def files(folder: Path) -> list[Path]:
    return sorted(folder.glob("*"))


@pytest.mark.parametrize(
    ("ending", "quirk", "end"),
    [
        ([EndBody()], "truncated", "eof"),
        ([Close()], "connection", "reset"),
        ([Reset()], "connection", "reset"),
        ([Send({"error": {"message": "boom", "code": 503}})], "overloaded", "eof"),
        ([Raw(b"data: [DONE]\n\n"), EndBody()], "no_finish_reason", "eof"),
        ([Done("whatever")], "unknown_finish_reason", "eof"),
    ],
)
async def test_a_failed_or_odd_answer_is_kept_and_replays_to_the_same_result(
    provider: ScriptedUpstream,
    watching: Watching,
    folder: Path,
    ending: list[Any],
    quirk: str,
    end: str,
) -> None:
    provider.script("hi", Say("Hel"), *ending)
    async with watching() as upstream:
        heard = await hear(upstream, "hi", provider.model_config())
    (case,) = kept(folder)
    assert (case["quirk"], case["end"], case["http_status"]) == (quirk, end, 200)
    assert case["content_type"].startswith("text/event-stream")
    assert case["dialect"] == "openai_chat"
    recording = Recording.from_json(json.dumps(case).encode())
    result = result_of(recording, await play(recording))
    assert result["text"] == heard.text == "Hel"
    assert result["error_kind"] == (heard.error.kind.value if heard.error else None)


async def test_good_answers_are_not_kept(
    provider: ScriptedUpstream, watching: Watching, folder: Path
) -> None:
    provider.script("hi", Say("Hello"), Done())
    async with watching() as upstream:
        assert (await hear(upstream, "hi", provider.model_config())).error is None
    assert files(folder) == []


async def test_a_call_that_cannot_be_read_is_odd(
    provider: ScriptedUpstream, watching: Watching, folder: Path
) -> None:
    call = {"index": 0, "id": "c", "function": {"name": "f", "arguments": '{"a'}}
    choice = {"delta": {"tool_calls": [call]}, "finish_reason": "tool_calls"}
    provider.script("hi", Send({"choices": [choice]}), Done("tool_calls"))
    async with watching() as upstream:
        await hear(upstream, "hi", provider.model_config())
    assert [case["quirk"] for case in kept(folder)] == ["invalid_tool_call"]


async def test_an_answer_without_a_word_is_odd(
    provider: ScriptedUpstream, watching: Watching, folder: Path
) -> None:
    provider.script("hi", Done())
    async with watching() as upstream:
        await hear(upstream, "hi", provider.model_config())
    assert [case["quirk"] for case in kept(folder)] == ["nothing_said"]


async def test_a_refusal_is_kept_with_its_status_and_without_the_key(
    provider: ScriptedUpstream, watching: Watching, folder: Path
) -> None:
    body = (
        b'{"error":{"message":"bad key sesame-open-123, Authorization: Bearer abcdefghijklmnop"}}'
    )
    provider.script("hi", Status(401, body, {"Content-Type": "application/json"}))
    async with watching() as upstream:
        heard = await hear(upstream, "hi", provider.model_config(api_key="sesame-open-123"))
    assert heard.kind is ErrorKind.AUTHENTICATION
    (case,) = kept(folder)
    assert (case["http_status"], case["content_type"]) == (401, "application/json")
    masked = b"".join(map(base64.b64decode, case["chunks"]))
    assert masked == body.replace(b"sesame-open-123", b"*" * 15).replace(
        b"abcdefghijklmnop", b"*" * 16
    )
    recording = Recording.from_json(json.dumps(case).encode())
    assert result_of(recording, await play(recording))["error_kind"] == "authentication"


async def test_files_are_for_ourselves_and_named_like_their_case(
    provider: ScriptedUpstream, watching: Watching, folder: Path
) -> None:
    provider.script("hi", EndBody())
    async with watching() as upstream:
        await hear(upstream, "hi", provider.model_config())
    (path,) = files(folder)
    assert [mode(path), mode(folder)] == [0o600, 0o700]
    assert path.stem == kept(folder)[0]["name"]


@pytest.mark.parametrize("where", ["a file is there", "no such path"])
async def test_a_folder_that_cannot_be_written_costs_the_file_and_one_line(
    provider: ScriptedUpstream, tmp_path: Path, where: str, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").touch()
    bad = str(tmp_path / "file" / "captures") if where == "a file is there" else "\0"
    upstream = Upstream(replace(QUICK, capture_dir=bad))
    caplog.set_level(logging.WARNING)
    for _ in range(3):
        provider.script("hi", Say("Hel"), EndBody())
        heard = await hear(upstream, "hi", provider.model_config())
        assert (heard.text, heard.kind) == ("Hel", ErrorKind.TRUNCATED)
    await upstream.aclose()
    assert [r.message.split(":")[0] for r in caplog.records if r.name.startswith("relay")] == [
        "RELAY_CAPTURE_DIR cannot be written"
    ]


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


async def test_a_full_disk_leaves_nothing_half_written(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    captures = Captures(folder)
    monkeypatch.setattr(Path, "replace", full)
    fail(captures)
    await captures.aclose()
    assert files(folder) == []
    assert "No space left" in caplog.text


# -- bounds ---------------------------------------------------------------------------------------
ASKED = Asked(request=REQUEST, model=MODEL)


def fail(captures: Captures, *reads: bytes, asked: Asked = ASKED) -> None:
    """One answer that breaks off."""
    tape = captures.tape(asked, 200, None)
    decoder = tape.watched(decoder_for(DIALECTS[asked.model.dialect], asked))
    for data in reads:
        decoder.feed(data)
    decoder.finish(clean=True)


async def test_the_oldest_files_make_room_and_others_stay(folder: Path) -> None:
    captures = Captures(folder, max_files=3)
    fail(captures)
    await captures.aclose()
    (folder / "notes.json").write_text("{}")
    names = []
    for n in range(5):
        fail(captures, b": %d\n" % n)
        await captures.aclose()
        names.append(files(folder)[-2].name)
    assert [path.name for path in files(folder)] == [*names[2:], "notes.json"]


async def test_all_files_together_are_bounded(folder: Path) -> None:
    captures = Captures(folder, max_total_bytes=10_000)
    for _ in range(6):
        fail(captures, b":" + b"x" * 3000)
        await captures.aclose()
    sizes = [len(path.read_bytes()) for path in files(folder)]
    assert len(sizes) == 2
    assert sum(sizes) <= 10_000


async def test_an_endless_answer_is_cut_and_says_so(folder: Path) -> None:
    captures = Captures(folder, max_stream_bytes=1000)
    fail(captures, *[b"x" * 300] * 10)
    await captures.aclose()
    (case,) = kept(folder)
    assert [len(base64.b64decode(chunk)) for chunk in case["chunks"]] == [300, 300, 300, 100]
    assert case["cut_bytes"] == 2000


async def test_when_everything_fails_only_the_first_answers_wait_to_be_written(
    folder: Path,
) -> None:
    captures = Captures(folder)
    for _ in range(MAX_WAITING * 3):
        fail(captures)
    await captures.aclose()
    assert len(kept(folder)) == MAX_WAITING


# -- what it takes to replay ----------------------------------------------------------------------
async def test_tags_stops_and_the_meaning_of_ids_are_kept(folder: Path) -> None:
    asked = replace(
        ASKED,
        model=replace(MODEL, dialect="vllm-tokens", think_tags=("<a>", "</a>")),
        request=msgspec.structs.replace(REQUEST, stop=["!!"]),
        vocabulary=Vocabulary(
            pieces={1: b"<a>x</a>", 2: b" y", 3: b"never", 4: b"</s>"}, special=frozenset({4})
        ),
    )
    captures = Captures(folder)
    fail(captures, b'data: {"choices":[{"token_ids":[1,2,4]}]}\n\n', asked=asked)
    await captures.aclose()
    (case,) = kept(folder)
    assert case["stops"] == ["!!"]
    assert case["special"] == [4]
    assert sorted(case["vocab"]) == ["1", "2", "4"]
    recording = Recording.from_json(json.dumps(case).encode())
    result = result_of(recording, await play(recording))
    assert (result["reasoning"], result["text"]) == ("x", " y")


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ('{"key":"sk-abcdefghijklmnop1234"}', "sk-abcdefghijklmnop1234"),
        ("Authorization: Bearer abc.def-ghi_jkl~m", "abc.def-ghi_jkl~m"),
        ('{\\"api_key\\": \\"0123456789\\"}', "0123456789"),
        ("x eyJhbGciOiJI.eyJzdWIiOiIx.c2ln y", "eyJhbGciOiJI.eyJzdWIiOiIx.c2ln"),
        ("my key is s3cr/et, and s3cr/et", "s3cr/et"),
        ("Bearer tokens and basic authentication are fine", ""),
        ('{"token":"internationalization","logprob":-1}', ""),
    ],
)
def test_secrets_are_covered_wherever_they_are_cut(text: str, secret: str) -> None:
    covered = text.replace(secret, "*" * len(secret)) if secret else text
    data = text.encode()
    for at in range(len(data) + 1):
        parts = without_secrets([data[:at], data[at:]], "s3cr/et")
        assert [part.decode() for part in parts] == [covered[:at], covered[at:]]


@pytest.mark.parametrize("unit", [b"eyJ-", b"sk-", b"Bearer ", b'"password":"', b"x", b"=eyJ.a."])
def test_covering_takes_no_longer_for_odd_bytes(unit: bytes) -> None:
    """A pattern that looks ahead from everywhere would not come back from these."""
    data = unit * (1024 * 1024 // len(unit))
    assert len(without_secrets([data], "k")[0]) == len(data)
