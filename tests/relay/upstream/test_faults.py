"""What goes wrong on real sockets, seen from the end of a whole generation."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import Sequence
from dataclasses import replace

import pytest

from tests.relay.upstream.answering import answering
from tests.scripted import (
    Close,
    Done,
    EndBody,
    Gate,
    Hang,
    Head,
    Raw,
    Reset,
    Say,
    ScriptedUpstream,
    Status,
    Step,
    Whole,
    Wire,
)
from tests.scripted.speech import PATHS, spoken
from tests.waiting import wait_until

DIALECTS = list(PATHS)
every_dialect = pytest.mark.parametrize("dialect", DIALECTS)

HTTP_1_0 = b"HTTP/1.0 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
GZIP = Head({"Content-Encoding": "gzip"})
HTML = Status(200, b"<html><body>Please log in</body></html>", {"Content-Type": "text/html"})
LONG_LINE = Raw(b"data: " + b"x" * 10_000_000)
BUSY = Status(500, b"")


@pytest.fixture(autouse=True)
def no_long_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("relay.upstream.attempts.BACKOFF_S", 0.01)


async def end_of(
    dialect: str, *scripts: Sequence[Step], retries: int = 1, **limits: float
) -> tuple[tuple[str, str | None, str], list[str], str, int]:
    """(status, reason, text), codes of notices, message of the error, requests."""
    async with ScriptedUpstream() as provider:
        model = replace(provider.model_config(dialect=dialect), **limits)  # type: ignore[arg-type]
        provider.script_each("hi", *scripts)
        async with answering({"scripted": model}, upstream_retries=retries) as worker:
            end, notices = await worker.ask("hi")
        for request in provider.requests:
            assert request.state == "done" or await asyncio.wait_for(request.closed.wait(), 5)
        return (
            (end.status.value, end.reason, end.text),
            [notice.code for notice in notices],
            end.error.message if end.error else "",
            len(provider.requests),
        )


@every_dialect
@pytest.mark.parametrize(
    ("ending", "reason"),
    [
        ([Hang()], "stalled"),
        ([Reset()], "connection"),
        ([Close()], "connection"),
        ([EndBody()], "truncated"),
        ([Raw(b'data: {"half'), EndBody()], "truncated"),
        ([Raw(b'data: {"half'), Reset()], "connection"),
        ([Raw(b"data: {half}\n\n"), Hang()], "protocol"),
        ([LONG_LINE, Hang()], "protocol"),
    ],
    ids=["silence", "rst", "fin", "eof", "half+eof", "half+rst", "no json", "10 MB line"],
)
async def test_after_its_first_word_a_fault_ends_the_answer_and_keeps_its_text(
    dialect: str, ending: list[Step], reason: str
) -> None:
    end, notices, _, requests = await end_of(dialect, [Say("Hel"), *ending], read_s=0.3)
    assert end == ("failed", reason, "Hel")
    assert (notices, requests) == ([], 1), "nothing is asked twice after content"


@every_dialect
@pytest.mark.parametrize(
    ("script", "reason", "requests"),
    [
        ([Hang()], "timeout", 2),
        ([Head(), Hang()], "timeout", 2),
        ([Reset()], "connection", 2),
        ([Head(), Reset()], "connection", 2),
        ([Wire(b"HTTP/1.1 2"), Close()], "connection", 2),
        ([EndBody()], "empty_response", 3),
        ([HTML], "protocol", 2),
        ([LONG_LINE, EndBody()], "protocol", 2),
        ([Wire(b"SSH-2.0-nothing\r\n\r\n"), Close()], "protocol", 2),
        ([Raw(b'{"text": "' + b"x" * 10_000_000), Hang()], "protocol", 2),
        ([Wire(b"HTTP/1.1 200 OK\r\nX-Long: " + b"x" * 1_000_000), Hang()], "protocol", 2),
        ([BUSY], "server_error", 2),
        ([Status(503, b"<html>", {"Retry-After": "0.01"})], "overloaded", 2),
        ([Status(429, b"", {"Retry-After": "0.01"})], "rate_limit", 2),
        ([Status(401, b"")], "authentication", 1),
        ([Status(400, b"")], "invalid_request", 1),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_before_its_first_word_a_fault_that_stays_is_named_after_the_retries(
    dialect: str, script: list[Step], reason: str, requests: int
) -> None:
    """A third request, or a second that no retry explains, is the one without streaming."""
    # Short only where it is waited for: a busy machine may take longer to deliver a request, which
    # then counts as a try that nobody received.
    first_byte_s = 1.0 if reason == "timeout" else 5.0
    end, notices, message, asked = await end_of(dialect, script, first_byte_s=first_byte_s)
    assert end == ("failed", reason, "")
    assert asked == requests
    assert notices == ["retrying"] * (requests - 1)
    assert message


@every_dialect
async def test_two_failures_that_pass_are_followed_by_the_answer(dialect: str) -> None:
    good: list[Step] = [Say("Hel"), Say("lo"), Done()]
    end, notices, _, _ = await end_of(dialect, [BUSY], [Reset()], good, retries=2)
    assert (end, notices) == (("completed", None, "Hello"), ["retrying"] * 2)


@every_dialect
async def test_an_empty_stream_is_asked_for_in_one_piece(dialect: str) -> None:
    end, notices, _, requests = await end_of(
        dialect, [EndBody()], [EndBody()], [Whole("All at once")]
    )
    assert end == ("completed", None, "All at once")
    assert (notices, requests) == (["retrying"] * 2, 3)


@every_dialect
@pytest.mark.parametrize(
    ("retry_after", "words"), [("600", "Try again in 10 min."), ("25", "Try again in 25 s.")]
)
async def test_a_wait_longer_than_a_persons_is_told_at_once(
    dialect: str, retry_after: str, words: str
) -> None:
    slow_down = Status(429, b"Slow down.", {"Retry-After": retry_after})
    end, notices, message, requests = await end_of(dialect, [slow_down])
    assert (end, notices, requests) == (("failed", "rate_limit", ""), [], 1)
    assert message == f"Slow down. {words}"


@every_dialect
async def test_odd_but_whole_answers_are_answers(dialect: str) -> None:
    stream = spoken(dialect, "Hel", "lo")
    scripts: list[list[Step]] = [
        [GZIP, Raw(gzip.compress(stream))],
        [GZIP, *(Raw(bytes([byte])) for byte in gzip.compress(stream))],
        [Wire(HTTP_1_0 + stream), Close()],
        [Raw(stream), Reset()],
        [Raw(stream.rstrip(b"\n")), EndBody()],
        [Whole("Hello")],
    ]
    for script in scripts:
        end, notices, _, requests = await end_of(dialect, script)
        assert (end, notices, requests) == (("completed", None, "Hello"), [], 1)


@every_dialect
async def test_answers_that_are_cut_in_odd_packing_are_failures(dialect: str) -> None:
    stream = spoken(dialect, "Hello", " and more")
    cut = stream[: stream.index(b" and more")]
    end, _, _, _ = await end_of(dialect, [Wire(HTTP_1_0 + cut), Close()])
    assert end == ("failed", "truncated", "Hello")
    packed = gzip.compress(stream)
    end, _, _, _ = await end_of(dialect, [GZIP, Raw(packed[: len(packed) // 2]), Close()])
    assert end[0] == "failed"
    spoiled = packed[:10] + b"\xff" * 40
    end, _, _, _ = await end_of(dialect, [GZIP, Raw(spoiled), EndBody()], retries=0)
    assert end[:2] == ("failed", "protocol")


@every_dialect
async def test_an_answer_longer_than_a_log_ends_at_its_bound_and_is_left(dialect: str) -> None:
    end, notices, _, requests = await end_of(dialect, [Say("x" * 100_000)] * 30 + [Hang()])
    status, reason, text = end
    assert (status, reason, notices, requests) == ("incomplete", "log_limit", [], 1)
    assert 1_500_000 < len(text) <= 2 * 1024 * 1024


@pytest.mark.parametrize(
    "script",
    [
        [Hang()],
        [Head(), Hang()],
        [Reset()],
        [Raw(b'data: {"half'), Reset()],
        [LONG_LINE, Hang()],
        [EndBody()],
        [HTML],
        [BUSY],
        [Status(429, b"", {"Retry-After": "600"})],
        [Status(401, b"")],
        [Status(402, b"")],
        [Status(404, b"")],
    ],
    ids=repr,
)
@every_dialect
async def test_a_good_fallback_answers_without_a_repeated_or_lost_character(
    dialect: str, script: list[Step]
) -> None:
    async with ScriptedUpstream() as bad, ScriptedUpstream() as good:
        bad.script("hi", *script)
        words = ["Gu", "ten ", "T", "ag, ", "\N{WAVING HAND SIGN}", " ", "Ta", "g"]
        good.script("hi", *(Say(word) for word in words), Done())
        models = {
            "scripted": bad.model_config(first_byte_s=0.2, dialect=dialect, fallback=("careful",)),
            "careful": good.model_config("careful", dialect=dialect),
        }
        async with answering(models) as worker:
            end, notices = await worker.ask("hi")
    assert (end.status, end.text, end.model) == ("completed", "".join(words), "careful")
    assert end.usage is not None
    assert end.usage.output_tokens == len(words)
    assert [notice.code for notice in notices][-1] == "fallback"
    assert notices[-1].message.endswith("careful answers instead.")
    assert len(good.requests) == 1


async def test_a_run_after_a_lost_worker_is_the_first_models_again() -> None:
    """The run before may have told that a fallback answers."""
    async with ScriptedUpstream() as bad, ScriptedUpstream() as slow:
        bad.script_each("hi", [BUSY], [Say("Mine"), Done()])
        slow.script("hi", Hang())
        models = {
            "scripted": bad.model_config(fallback=("careful",)),
            "careful": slow.model_config("careful"),
        }
        async with answering(models, upstream_retries=0, lease_s=0.5) as worker:
            rid = await worker.begin("hi")
            await wait_until(lambda: slow.requests, "the fallback to be asked")
            await worker.supervisor.drain()  # without content: released, to be run by another
            worker.another().start()
            end = (await worker.outcome(rid)).snapshot
    assert (end.text, end.model, end.attempt) == ("Mine", "scripted", 2)


async def test_a_stop_during_the_pause_before_a_retry_ends_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("relay.upstream.attempts.BACKOFF_S", 60.0)
    monkeypatch.setattr("relay.upstream.attempts.BACKOFF_MAX_S", 60.0)
    async with ScriptedUpstream() as provider:
        provider.script("hi", BUSY)
        async with answering({"scripted": provider.model_config()}) as worker:
            rid = await worker.begin("hi")

            async def told() -> bool:
                return any(event.seq == 3 for event in await worker.events(rid))

            await wait_until(told, "the notice")
            await worker.stop(rid)
            end = (await worker.outcome(rid)).snapshot
    assert (end.status, end.reason, len(provider.requests)) == ("cancelled", "user", 1)


async def test_a_stop_while_a_fallback_answers_closes_the_fallbacks_connection() -> None:
    async with ScriptedUpstream() as bad, ScriptedUpstream() as good:
        bad.script("hi", Status(404, b""))
        good.script("hi", Say("Hel"), Gate("never"))
        models = {
            "scripted": bad.model_config(fallback=("careful",)),
            "careful": good.model_config("careful"),
        }
        async with answering(models) as worker:
            rid = await worker.begin("hi")

            async def begun() -> bool:
                return len(await worker.events(rid)) == 4

            await wait_until(begun, "the first word")
            await worker.stop(rid)
            end = (await worker.outcome(rid)).snapshot
            await asyncio.wait_for(good.last.closed.wait(), 5)
    assert (end.status, end.text, end.model) == ("cancelled", "Hel", "careful")


async def test_the_wall_clock_runs_through_pauses_and_attempts() -> None:
    async with ScriptedUpstream() as provider:
        provider.script("hi", Status(429, b"", {"Retry-After": "19"}))
        model = provider.model_config(total_s=0.5)
        async with answering({"scripted": model}) as worker:
            end, notices = await worker.ask("hi")
    assert (end.status, end.reason) == ("failed", "wall_clock")
    assert (len(notices), len(provider.requests)) == (1, 1)
