"""`python -m relay.replay`: what files come to, what is saved, what is refused."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from relay.dialects.recording import DIALECT_NAMES, Recording
from relay.replay import play, result_of
from relay.replay.__main__ import main
from tests.relay.replay.agreeing import disagreements

ROOT = Path(__file__).parents[3]
CASES = [
    path
    for corpus in ("corpus", "corpus_more")
    for path in sorted((ROOT / "tests" / "fixtures" / corpus / "cases").glob("*.json"))
]
BODY = (
    b'data: {"id":"c1","model":"demo","choices":[{"delta":{"content":"<think>hm</think>Hi"}}]}\n\n'
    b'data: {"choices":[{"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
)

Captured = pytest.CaptureFixture[str]


def told(capsys: Captured) -> list[dict[str, Any]]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_every_case_is_replayed_to_its_result(capsys: Captured) -> None:
    assert len(CASES) == 197 + 80
    assert main([str(path) for path in CASES]) == 0
    results = told(capsys)
    cases = [json.loads(path.read_bytes()) for path in CASES]
    assert [result["name"] for result in results] == [case["name"] for case in cases]
    differing = {
        case["name"]: differences
        for case, result in zip(cases, results, strict=True)
        if (differences := disagreements(result, case))
    }
    assert differing == {}


@pytest.mark.parametrize("path", CASES, ids=[path.stem for path in CASES])
def test_delivery_does_not_matter(path: Path) -> None:
    data = path.read_bytes()
    body = b"".join(Recording.from_json(data).chunks)
    for chunks in ([body], [body[at : at + 1] for at in range(len(body))]):
        recording = Recording.from_json(data)
        recording.chunks = chunks
        assert (
            disagreements(result_of(recording, asyncio.run(play(recording))), json.loads(data))
            == {}
        )


@pytest.mark.parametrize("dialect", [*DIALECT_NAMES, *DIALECT_NAMES.values()])
def test_a_dialect_may_be_named_as_here_or_as_in_the_corpus(
    dialect: str, tmp_path: Path, capsys: Captured
) -> None:
    (tmp_path / "body").write_bytes(b"")
    assert main([str(tmp_path / "body"), "--dialect", dialect]) == 0
    assert told(capsys)[0]["error_kind"] == "empty_response"


def test_a_raw_body_is_read_like_a_case(tmp_path: Path, capsys: Captured) -> None:
    (tmp_path / "answer.txt").write_bytes(BODY)
    assert main([str(tmp_path / "answer.txt"), "--dialect", "openai_chat"]) == 0
    (result,) = told(capsys)
    assert (result["name"], result["text"]) == ("answer", "<think>hm</think>Hi")
    assert (result["terminal_state"], result["finish_reason"]) == ("completed", "stop")
    assert (result["response_id"], result["model"]) == ("c1", "demo")
    assert result["usage"] is None


def test_what_a_request_would_have_asked_for_can_be_said(tmp_path: Path, capsys: Captured) -> None:
    (tmp_path / "a").write_bytes(BODY)
    said = ["--think-tags", "<think>", "</think>", "--stop", "i", "--end", "reset"]
    assert main([str(tmp_path / "a"), "--dialect", "openai-chat", *said]) == 0
    (result,) = told(capsys)
    assert (result["reasoning"], result["text"]) == ("hm", "H")


@pytest.mark.parametrize(
    ("said", "kind"), [(["--end", "reset"], "connection"), (["--status", "429"], "rate_limit")]
)
def test_how_the_connection_ended_can_be_said(
    said: list[str], kind: str, tmp_path: Path, capsys: Captured
) -> None:
    (tmp_path / "a").write_bytes(b": hello\n\n")
    assert main([str(tmp_path / "a"), "--dialect", "anthropic", *said]) == 0
    (result,) = told(capsys)
    assert (result["error_kind"], result["retryable"]) == (kind, True)


def test_a_stop_that_comes_after_the_whole_answer_changes_nothing(
    tmp_path: Path, capsys: Captured
) -> None:
    (tmp_path / "a").write_bytes(BODY)
    assert main([str(tmp_path / "a"), "--dialect", "openai-chat", "--end", "cancel"]) == 0
    assert told(capsys)[0]["terminal_state"] == "completed"


def test_the_head_that_curl_prints_is_not_the_body(tmp_path: Path, capsys: Captured) -> None:
    head = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/2 529\r\nContent-Type: text/plain \r\nx: y\r\n\r\n"
    (tmp_path / "a").write_bytes(head + b"too busy")
    saved = tmp_path / "a.json"
    assert main([str(tmp_path / "a"), "--dialect", "anthropic", "--save", str(saved)]) == 0
    (result,) = told(capsys)
    assert (result["error_kind"], result["error_message"]) == ("overloaded", "too busy")
    case = json.loads(saved.read_bytes())
    assert (case["http_status"], case["content_type"]) == (529, "text/plain")
    assert base64.b64decode(case["chunks"][0]) == b"too busy"


def test_standard_input_is_read(monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(BODY)))
    assert main(["-", "--dialect", "openai_chat"]) == 0
    assert told(capsys)[0]["finish_reason"] == "stop"


# -- saving ---------------------------------------------------------------------------------------
def test_a_saved_body_is_a_case_with_the_same_result(tmp_path: Path, capsys: Captured) -> None:
    (tmp_path / "answer.txt").write_bytes(BODY)
    saved = tmp_path / "cases" / "odd_answer.json"
    saved.parent.mkdir()
    raw = [str(tmp_path / "answer.txt"), "--dialect", "openai_chat"]
    assert main([*raw, "--think-tags", "<think>", "</think>", "--save", str(saved)]) == 0
    assert main([str(saved)]) == 0
    first, again = told(capsys)
    assert first == again
    case = json.loads(saved.read_bytes())
    assert case["name"] == again["name"] == "odd_answer"
    assert case["dialect"] == "openai_chat"
    assert disagreements(again, case) == {}
    assert case["expect"]["reasoning"] == "hm"


def test_cases_are_saved_into_a_folder_and_keep_what_people_wrote(
    tmp_path: Path, capsys: Captured
) -> None:
    judged = [p for p in CASES if p.stem in ("eng_vllm_abort", "reason_think_tags_whole")]
    assert main([*map(str, judged), "--save", str(tmp_path / "new")]) == 0
    for path in judged:
        before = json.loads(path.read_bytes())
        after = json.loads((tmp_path / "new" / path.name).read_bytes())
        before.pop("expect")
        after.pop("expect")
        assert after == before


def test_ids_need_a_tokenizer_that_can_be_read(tmp_path: Path, capsys: Captured) -> None:
    (tmp_path / "a").write_bytes(b"")
    nothing = str(tmp_path / "tokenizer.json")
    assert main([str(tmp_path / "a"), "--dialect", "engine_vllm", "--tokenizer", nothing]) == 2
    assert "tokenizer" in capsys.readouterr().err


# -- refusing -------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("content", "said", "sentence"),
    [
        (b"data: x\n\n", [], "a raw body needs --dialect"),
        (b"data: x\n\n", ["--dialect", "gopher"], "is none of openai_chat"),
        (b'{"dialect":"gopher","chunks":[]}', [], "is none of openai_chat"),
        (b'{"dialect":"anthropic","chunks":["%%%"]}', [], "no recorded answer"),
        (b'{"dialect":"anthropic","chunks":[],"end":"never"}', [], "no recorded answer"),
        (b"[" * 100_000, [], "a raw body needs --dialect"),
        (b"", [], "a raw body needs --dialect"),
        (None, [], "No such file"),
    ],
)
def test_unusable_input_is_one_sentence_and_status_2(
    content: bytes | None, said: list[str], sentence: str, tmp_path: Path, capsys: Captured
) -> None:
    path = tmp_path / "given"
    if content is not None:
        path.write_bytes(content)
    assert main([str(path), *said]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert sentence in err
    assert err.startswith(f"{path} cannot be replayed: ")


def test_a_folder_is_no_file(tmp_path: Path, capsys: Captured) -> None:
    assert main([str(tmp_path)]) == 2
    assert "Is a directory" in capsys.readouterr().err


def test_one_bad_file_hides_no_good_one(tmp_path: Path, capsys: Captured) -> None:
    assert main([str(tmp_path / "no"), str(CASES[0])]) == 2
    assert [result["name"] for result in told(capsys)] == [CASES[0].stem]


def test_several_files_do_not_fit_into_one(tmp_path: Path, capsys: Captured) -> None:
    save = ["--save", str(tmp_path / "one.json")]
    assert main([str(CASES[0]), str(CASES[1]), *save]) == 2
    assert "folder" in capsys.readouterr().err


def test_it_runs_as_a_module() -> None:
    command = [sys.executable, "-m", "relay.replay", str(CASES[0])]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, check=True, text=True)
    assert run.stderr == ""
    assert json.loads(run.stdout)["name"] == CASES[0].stem
