"""`manage.py check_models`: what works, what does not, and where to look."""

from __future__ import annotations

import asyncio
from io import StringIO
from typing import TYPE_CHECKING, Any

import pytest
from django.core.management import CommandError, call_command

from chatapp.management import model_check
from chatapp.management.model_check import Heard, Slots, _streams, address
from relay import ErrorKind, ModelConfig, UpstreamError
from tests.scripted import (
    Done,
    EndBody,
    Hang,
    Pause,
    Say,
    ScriptedUpstream,
    Send,
    Status,
    Step,
    Whole,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

COUNT = "Count from one to twenty in words."
WEATHER = "What is the weather in Paris? Call get_weather."
STORY = "Write a long story."

SLOWLY: list[Step] = [Say("one "), Pause(30), Say("two"), Done()]


@pytest.fixture
async def provider() -> AsyncIterator[ScriptedUpstream]:
    async with ScriptedUpstream() as up:
        up.script(COUNT, *SLOWLY)
        up.script(STORY, Say("Once"), Hang())
        yield up


class Checked:
    """The command, run on one model with these lines in the models file."""

    def __init__(self, path: Path, settings: Any) -> None:
        self._path, self._settings = path, settings

    async def __call__(
        self, base_url: str, more: str = "", *args: str
    ) -> tuple[dict[str, str], str | None]:
        """The rows by what they are about, and the last line if the exit status is not 0."""
        entry = f'dialect = "openai-chat"\nbase_url = "{base_url}"\nupstream_model = "s-1"\n{more}'
        path = self._path / f"{len(list(self._path.iterdir()))}.toml"
        path.write_text(f"[models.one]\n{entry}")
        self._settings.RELAY_MODELS = str(path)
        out = StringIO()
        error = None
        try:
            await asyncio.to_thread(call_command, "check_models", *args, stdout=out)
        except CommandError as exc:
            error = str(exc)
        rows = [line.split(maxsplit=1) for line in out.getvalue().splitlines()[1:]]
        return {row[0]: row[1] for row in rows if len(row) == 2}, error


@pytest.fixture
def checked(tmp_path: Path, settings: Any) -> Checked:
    folder = tmp_path / "models"
    folder.mkdir()
    return Checked(folder, settings)


async def test_a_model_that_works_is_told_so(provider: ScriptedUpstream, checked: Checked) -> None:
    call = {"index": 0, "id": "c", "function": {"name": "get_weather", "arguments": '{"city":"x"}'}}
    chunk = {"choices": [{"index": 0, "delta": {"tool_calls": [call]}}]}
    provider.script(WEATHER, Send(chunk), Done("tool_calls"))
    rows, error = await checked(f"{provider.url}/v1", 'supports = ["tools"]')
    assert error is None
    assert rows["connects"].startswith("yes  first piece after ")
    assert rows["streams"].startswith("yes  2 pieces within ")
    assert rows["usage"].startswith("yes  ")
    assert rows["tools"] == "yes  it called get_weather"
    assert rows["abort"].startswith("yes  closed in ")
    assert rows["All"] == "1 work."
    story = next(request for request in provider.requests if request.text == STORY)
    await story.closed.wait()
    assert story.state == "closed"
    assert [request.body.get("tools") is not None for request in provider.requests] == [
        *(False, True, False)
    ]


async def test_tools_are_tried_where_they_are_wanted(
    provider: ScriptedUpstream, checked: Checked
) -> None:
    url = f"{provider.url}/v1"
    rows, error = await checked(url)
    assert (rows["tools"][:5], error) == ("-    ", None)
    rows, error = await checked(url, "", "--tools")
    assert rows["tools"] == "no   it answered in words instead of calling the tool"
    assert error == "1 of 1 do not work: one"
    call = {"index": 0, "id": "c", "function": {"name": "get_weather", "arguments": '{"city":'}}
    chunk = {"choices": [{"index": 0, "delta": {"tool_calls": [call]}}]}
    provider.script(WEATHER, Send(chunk), Done("tool_calls"))
    rows, error = await checked(url, "", "--tools")
    assert rows["tools"].startswith("no   the arguments of its call are not usable")


async def test_an_answer_in_one_piece_is_no_stream(
    provider: ScriptedUpstream, checked: Checked
) -> None:
    provider.script(COUNT, Whole("one two three"))
    rows, error = await checked(f"{provider.url}/v1")
    assert rows["streams"].startswith("no   the answer came in one piece")
    assert error is not None


async def test_an_answer_that_breaks_off_is_told_so(
    provider: ScriptedUpstream, checked: Checked
) -> None:
    provider.script(COUNT, Say("one "), Pause(30), Say("two"), EndBody())
    rows, error = await checked(f"{provider.url}/v1")
    assert rows["connects"].startswith("yes")
    assert rows["streams"].startswith("no   It broke off after 2 pieces.")
    assert rows["usage"] == "no   none was told; answers are counted by us"
    assert error is not None


@pytest.mark.parametrize(
    ("status", "more", "says"),
    [
        (401, 'api_key_env = "THE_KEY"', "The key in THE_KEY was refused. "),
        (401, "", "It wants a key, and the models file names no api_key_env. "),
        (404, "", "/v1/chat/completions does not have that: base_url or upstream_model (s-1) may"),
        (500, "", "(server_error)"),
    ],
)
async def test_a_refusal_says_where_to_look(
    provider: ScriptedUpstream,
    checked: Checked,
    monkeypatch: pytest.MonkeyPatch,
    status: int,
    more: str,
    says: str,
) -> None:
    monkeypatch.setenv("THE_KEY", "sk-secret")
    provider.script(COUNT, Status(status, b'{"error": {"message": "No sk-secret."}}'))
    rows, error = await checked(f"{provider.url}/v1", more)
    assert rows.keys() == {"connects"}
    assert rows["connects"].startswith("no   ")
    assert says in rows["connects"]
    assert "sk-secret" not in rows["connects"] or not more
    assert error == "1 of 1 do not work: one"


async def test_what_cannot_be_asked_is_not(
    provider: ScriptedUpstream, checked: Checked, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_SUCH_KEY", raising=False)
    rows, _ = await checked(f"{provider.url}/v1", 'api_key_env = "NO_SUCH_KEY"')
    assert rows["connects"] == (
        "no   NO_SUCH_KEY is not set in this environment, so nothing was asked."
    )
    assert provider.requests == []
    rows, _ = await checked("http://me:pw@127.0.0.1:1/v1")
    assert rows["connects"] == "no   127.0.0.1:1: The provider cannot be reached."


async def test_an_engine_that_works_on_is_found_out(
    provider: ScriptedUpstream, checked: Checked, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = [{1}, {1, 7}]

    async def busy(slots: Slots) -> set[int]:
        return seen.pop(0) if seen else {7}

    monkeypatch.setattr(Slots, "busy", busy)
    monkeypatch.setattr(model_check, "FREED_S", 0.0)
    rows, error = await checked(f"{provider.url}/v1")
    assert rows["abort"] == "no   the engine still works on it after 0 s"
    assert error is not None


async def test_the_slot_of_somebody_else_is_not_waited_for(
    provider: ScriptedUpstream, checked: Checked, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = [{1}, {1, 7}, {1, 7}]

    async def busy(slots: Slots) -> set[int]:
        return seen.pop(0) if seen else {1}

    monkeypatch.setattr(Slots, "busy", busy)
    rows, error = await checked(f"{provider.url}/v1")
    assert rows["abort"].startswith("yes  the engine's slot was free ")
    assert error is None


async def test_an_answer_too_short_to_be_stopped_proves_nothing(
    provider: ScriptedUpstream, checked: Checked
) -> None:
    provider.script(STORY, Whole("The end."))
    rows, error = await checked(f"{provider.url}/v1")
    assert (rows["abort"][:5], error) == ("-    ", None)


@pytest.mark.parametrize(
    ("at_s", "works", "says"),
    [
        ([], False, "no text came"),
        ([0.5], False, "in one piece"),
        ([0.5, 0.501, 0.502], False, "all 3 pieces came at once"),
        ([0.5, 0.52], True, "2 pieces within 20 ms"),
    ],
)
def test_pieces_that_come_apart_are_a_stream(at_s: list[float], works: bool, says: str) -> None:
    finding = _streams(Heard(at_s=at_s))
    assert (finding.works, says in finding.words) == (works, True)


def test_an_answer_without_an_end_is_no_stream() -> None:
    broken = UpstreamError(ErrorKind.TRUNCATED, "It broke.")
    assert _streams(Heard(at_s=[0.1, 0.9], error=broken)).works is False


def test_a_password_in_an_address_is_not_shown() -> None:
    model = ModelConfig(
        name="m", dialect="openai-chat", base_url="https://a:b@x.example:1/v1", upstream_model="m"
    )
    assert address(model) == "https://x.example:1/v1"


def test_models_that_are_not_declared_are_named(settings: Any, tmp_path: Path) -> None:
    with pytest.raises(CommandError, match=r"No such model: nobody\. Declared: fast, other\."):
        call_command("check_models", "nobody")
    (tmp_path / "m.toml").write_text("[models.x]")
    settings.RELAY_MODELS = str(tmp_path / "m.toml")
    with pytest.raises(CommandError, match=r"models\.x: .* is missing"):
        call_command("check_models")
    settings.RELAY_MODELS = ""
    with pytest.raises(CommandError, match="No models"):
        call_command("check_models")
