"""The redaction hook: what is stored went through it, and what fails is kept out."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from asgiref.sync import sync_to_async

from chatapp import redaction, services
from chatapp.checks import check_redaction
from chatapp.finalize import Records
from chatapp.models import AuditEvent, Chat, Message, Response, User
from chatapp.redaction import WITHHELD, RedactionFailed, mask, redacted
from chatapp.services import Question, create_response, send_message, update_chat
from chatapp.services.errors import NotChecked
from chatapp.services.verifying import ContentCheck
from relay import GenerationRequest, Snapshot, ToolCall, text_sha256
from relay.events import PartMeta
from tests.chatapp.conftest import make_row
from tests.chatapp.test_finalize import outcome

if TYPE_CHECKING:
    from relay import MemoryStore

CARD = "4111 1111 1111 1111"
SECRET = f"write to ann@example.org, pay with {CARD}"
MASKED = "write to [e-mail], pay with [card number]"


def broken(text: str) -> str:
    raise ValueError(f"cannot read {text}")


def silent(text: str) -> None:
    """Answers with nothing."""


@pytest.fixture
def masking(settings: Any) -> None:
    settings.REDACT = "chatapp.redaction.mask"


@pytest.fixture
def failing(settings: Any) -> None:
    settings.REDACT = f"{__name__}.broken"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (SECRET, MASKED),
        ("Zoë.B+x@sub.exämple.co.uk!", "[e-mail]!"),
        ("a@b", "a@b"),
        ("5500-0000-0000-0004", "[card number]"),
        ("378282246310005.", "[card number]."),
        ("4111 1111 1111 1112", "4111 1111 1111 1112"),  # its check digit is wrong
        ("call 555 0100 or 2026-11-30", "call 555 0100 or 2026-11-30"),
        ("pi is 3.14159265358979323846264338", "pi is 3.14159265358979323846264338"),
        ("41111111111111111111111111111111", "41111111111111111111111111111111"),
        ("", ""),
    ],
)
def test_the_example_masks_addresses_and_card_numbers(text: str, expected: str) -> None:
    assert mask(text) == expected


async def test_a_question_is_stored_and_sent_masked(
    store: MemoryStore, user: User, chat: Chat, masking: None
) -> None:
    sent = await send_message(user=user, chat=chat, text=SECRET)
    assert (await Message.objects.aget(pk=sent.message.pk)).text == MASKED
    assert (await Chat.objects.aget()).title == MASKED[:60]
    request = GenerationRequest.from_json((await Response.objects.aget()).request)
    assert request.messages == [{"role": "user", "content": MASKED}]


async def test_every_text_of_a_request_is_masked_and_nothing_else(
    store: MemoryStore, user: User, masking: None
) -> None:
    picture = "data:image/png;base64,ann@example.org"
    question = Question(
        model="fast",
        instructions=SECRET,
        messages=[
            {"role": "user", "content": [{"type": "text", "text": SECRET}]},
            {"role": "assistant", "tool_calls": [{"id": "1", "name": "f", "arguments": SECRET}]},
            {"role": "tool", "call_id": "a@b.de", "output": SECRET},
        ],
        metadata={"from": {"mail": [SECRET, 7]}},
    )
    row = await create_response(user=user, question=question)
    request = GenerationRequest.from_json(row.request)
    assert request.instructions == MASKED
    assert request.messages[0]["content"] == [{"type": "text", "text": MASKED}]
    assert request.messages[1]["tool_calls"] == [{"id": "1", "name": "f", "arguments": MASKED}]
    assert request.messages[2] == {"role": "tool", "call_id": "a@b.de", "output": MASKED}
    assert msgspec.json.decode(row.metadata) == {"from": {"mail": [MASKED, 7]}}
    assert redaction.redact_all(picture) == picture


async def test_names_and_prompts_of_chats_are_masked(
    store: MemoryStore, chat: Chat, masking: None
) -> None:
    await update_chat(chat=chat, title=SECRET, system_prompt=SECRET)
    row = await Chat.objects.aget()
    assert (row.title, row.system_prompt) == (MASKED, MASKED)


async def test_an_answer_is_recorded_masked_with_its_own_digest(
    store: MemoryStore, row: Response, masking: None
) -> None:
    await Records().finalize(outcome(row.pk, text=SECRET))
    await row.arefresh_from_db()
    snapshot = services.recorded(row)
    assert (snapshot.text, snapshot.text_sha256) == (MASKED, text_sha256(MASKED))
    check = ContentCheck()
    assert await sync_to_async(lambda: list(check.findings()))() == []
    assert check.matched == 1


def test_whatever_an_answer_says_is_masked(masking: None) -> None:
    call = ToolCall(index=0, call_id="c", name="f", raw=SECRET, arguments={"to": [SECRET]})
    signature = PartMeta(part=0, kind="signature", data="s@s.de")
    citation = PartMeta(part=0, kind="citation", data={"text": SECRET})
    said = Snapshot(text="", reasoning="plain", refusal=SECRET, tool_calls=(call,),
                    meta=(signature, citation))  # fmt: skip
    kept = redacted(said)
    assert (kept.refusal, kept.tool_calls[0].raw) == (MASKED, MASKED)
    assert kept.tool_calls[0].arguments == {"to": [MASKED]}
    assert [one.data for one in kept.meta] == ["s@s.de", {"text": MASKED}]
    changed = redacted(msgspec.structs.replace(said, reasoning=SECRET))
    assert (changed.reasoning, changed.meta) == (MASKED, ())


async def test_a_hook_that_fails_keeps_a_question_out_and_says_so(
    store: MemoryStore, user: User, chat: Chat, failing: None, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    with pytest.raises(NotChecked, match="Nothing was saved or sent"):
        await send_message(user=user, chat=chat, text=SECRET)
    with pytest.raises(NotChecked):
        await update_chat(chat=chat, title=SECRET)
    assert not await Message.objects.aexists()
    assert not await Response.objects.aexists()
    assert "REDACT failed: ValueError" in caplog.text
    assert "ann@example.org" not in caplog.text


async def test_a_hook_that_fails_loses_no_answer_but_its_words(
    store: MemoryStore, row: Response, failing: None
) -> None:
    await Records().finalize(outcome(row.pk, text=SECRET))
    await row.arefresh_from_db()
    snapshot = services.recorded(row)
    assert (row.status, row.output_tokens) == ("completed", 3)
    assert (snapshot.text, snapshot.text_sha256) == (WITHHELD, text_sha256(WITHHELD))
    assert "ann@example.org" not in row.fold


def test_a_hook_that_answers_with_no_text_has_failed(settings: Any) -> None:
    settings.REDACT = f"{__name__}.silent"
    with pytest.raises(RedactionFailed):
        redaction.redact("x")


@pytest.mark.parametrize(
    ("path", "ids"),
    [
        ("", []),
        ("chatapp.redaction.mask", []),
        ("chatapp.redaction.nothing", ["chatapp.E006"]),
        ("chatapp.redaction.WITHHELD", ["chatapp.E006"]),
    ],
)
def test_a_hook_that_is_not_there_is_told_at_start(
    settings: Any, path: str, ids: list[str]
) -> None:
    settings.REDACT = path
    assert [message.id for message in check_redaction()] == ids


def noted() -> list[tuple[str, str, Any]]:
    rows = AuditEvent.objects.filter(action="redacted").order_by("pk")
    return [(row.response_id, row.username, row.detail) for row in rows]


async def test_an_answer_that_the_hook_changed_is_in_the_trail_by_counts_alone(
    store: MemoryStore, row: Response, user: User, masking: None
) -> None:
    other = await sync_to_async(make_row)(user)
    await Records().finalize(outcome(other.pk, text="nothing to be covered"))
    await Records().finalize(outcome(row.pk, text=SECRET))
    await Records().finalize(outcome(row.pk, text=SECRET))  # a repeat writes nothing
    assert await sync_to_async(noted)() == [(row.pk, "ann", {"code": "changed", "text": 1})]


async def test_an_answer_that_was_withheld_is_in_the_trail(
    store: MemoryStore, row: Response, failing: None
) -> None:
    await Records().finalize(outcome(row.pk, text=SECRET))
    assert await sync_to_async(noted)() == [(row.pk, "ann", {"code": "withheld", "text": 1})]


def test_each_part_that_is_not_what_it_was_is_counted(masking: None) -> None:
    calls = tuple(ToolCall(index=n, call_id="c", name="f", raw=SECRET) for n in range(2))
    signature = PartMeta(part=0, kind="signature", data="s")
    said = Snapshot(text=SECRET, reasoning=SECRET, tool_calls=calls, meta=(signature,))
    told = redaction.difference(said, redacted(said))
    assert told == {"code": "changed", "text": 1, "reasoning": 1, "tool_calls": 2, "meta": 1}
