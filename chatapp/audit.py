"""The trail: who did what to which response, and to whose plan.

Called inside the transaction that it tells about. No content, ever: names, states, numbers, and the
SHA-256 of what was stored, so that the chain over the trail (chatapp/chain.py) covers it, too.
"""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, Any

from django.utils import timezone

from chatapp.models import AuditEvent, Chat, Response
from chatapp.statements import insert

if TYPE_CHECKING:
    from relay import Snapshot


def created(
    response: Response, *, actor: str, detail: dict[str, Any], question: str | None = None
) -> None:
    """`question`: the text of the chat's message that is answered; empty for pictures alone."""
    detail = {**detail, "request_sha256": _digest(response.request)}
    if question is not None:
        detail["question_sha256"] = _sha256(question)
    _write(_of(response, "created", actor=actor, detail=detail))


def begun(response: Response) -> None:
    """It has waited in its chat and is asked now, with the conversation as it is now."""
    detail = {"request_sha256": _digest(response.request)}
    _write(_of(response, "begun", actor="", detail=detail))


def stopped(response: Response, *, actor: str, reason: str) -> None:
    """A stop was wished; whether it came in time is what `ended` says."""
    _write(_of(response, "stopped", actor=actor, detail={"reason": reason}))


def rewritten(response: Response, *, actor: str, question: str) -> None:
    """What it is to answer was changed while it waited; `question` is its text now."""
    detail = {"question_sha256": _sha256(question)}
    _write(_of(response, "rewritten", actor=actor, detail=detail))


def ended(
    response_id: str, *, username: str, model: str, snapshot: Snapshot, fold: str, worker: str
) -> None:
    """`fold`: what is stored of it; empty where its content was erased before its end."""
    usage = snapshot.usage
    detail = {
        "reason": snapshot.reason,
        "finish_reason": snapshot.finish_reason,
        "error": snapshot.error.code if snapshot.error else None,
        "seq": snapshot.seq,
        "input_tokens": usage.input_tokens if usage else None,
        "output_tokens": usage.output_tokens if usage else None,
        "worker": worker,
        "content_sha256": _digest(fold),
    }
    _write(
        AuditEvent(
            action="ended",
            actor="",
            response_id=response_id,
            username=username,
            model=model,
            status=snapshot.status,
            detail=detail,
        )
    )


def redacted(response_id: str, *, username: str, model: str, change: dict[str, Any]) -> None:
    """The redaction hook changed or withheld an answer; `change`: a code and counts of parts."""
    _write(
        AuditEvent(
            action="redacted",
            actor="",
            response_id=response_id,
            username=username,
            model=model,
            detail=change,
        )
    )


def erased(response: Response, *, actor: str, why: str) -> None:
    """Its content is removed: `chat deleted`, `retention` or `person erased`."""
    _write(_of(response, "erased", actor=actor, detail={"why": why}))


def text_read(response: Response, *, actor: str, how: str) -> None:
    """What was asked and answered was shown to `actor`; `how`: on which page or by what."""
    _write(_of(response, "text read", actor=actor, detail={"how": how}))


def error_read(model: str, *, actor: str, response_id: str) -> None:
    """What a provider said of its last failure, which may quote a question, was shown."""
    _write(
        AuditEvent(
            action="text read",
            actor=actor,
            response_id=response_id,
            model=model,
            detail={"how": "models page"},
        )
    )


def text_searched(*, actor: str, found: int) -> None:
    """Answers were looked for by words in them; which words is not told here."""
    _write(AuditEvent(action="text searched", actor=actor, detail={"found": found}))


def exported(*, actor: str, rows: int, with_text: bool, filters: dict[str, str]) -> None:
    """`filters`: what the list was narrowed by, without words of texts."""
    action = "texts exported" if with_text else "figures exported"
    _write(AuditEvent(action=action, actor=actor, detail={"rows": rows, "filters": filters}))


def model_switched(model: str, *, actor: str, state: str) -> None:
    _write(AuditEvent(action="model switched", actor=actor, model=model, detail={"state": state}))


def worker_drained(worker: str, *, actor: str, drained: bool) -> None:
    detail = {"worker": worker, "drained": drained}
    _write(AuditEvent(action="worker drained", actor=actor, detail=detail))


def banner_changed(*, actor: str, change: str, banner: int) -> None:
    detail = {"change": change, "banner": banner}
    _write(AuditEvent(action="banner changed", actor=actor, detail=detail))


def flagged(response: Response, *, actor: str, flag: bool) -> None:
    _write(_of(response, "flagged" if flag else "flag removed", actor=actor, detail={}))


def chat_read(chat: Chat, *, actor: str) -> None:
    """All that was said in a chat was shown to `actor`."""
    detail = {"how": "chat", "chat": str(chat.pk)}
    _write(
        AuditEvent(
            action="text read",
            actor=actor,
            username=chat.user.username,
            model=chat.model,
            detail=detail,
        )
    )


def titled(chat: str, *, username: str, model: str, done: bool, snapshot: Snapshot) -> None:
    """A model was asked for a chat's name; `done`: what it said was one."""
    usage = snapshot.usage
    detail = {
        "chat": chat,
        "done": done,
        "input_tokens": usage.input_tokens if usage else None,
        "output_tokens": usage.output_tokens if usage else None,
    }
    _write(AuditEvent(action="titled", actor="", username=username, model=model, detail=detail))


def plan_changed(plan: str, *, actor: str, change: dict[str, Any]) -> None:
    """`change`: the new value of each field that has one; `removed` when the plan is gone."""
    _write(AuditEvent(action="plan changed", actor=actor, detail={"plan": plan} | change))


def plan_given(username: str, *, actor: str, before: str, after: str) -> None:
    """Names of plans; empty for the settings' limits."""
    detail = {"before": before, "after": after}
    _write(AuditEvent(action="plan given", actor=actor, username=username, detail=detail))


def rights_changed(username: str, *, actor: str, change: dict[str, list[str]]) -> None:
    """`change`: names of flags, groups and permissions of a person that were `given` or `taken`."""
    action = "rights given" if "given" in change else "rights taken"
    _write(AuditEvent(action=action, actor=actor, username=username, detail=change))


def group_changed(group: str, *, actor: str, change: dict[str, Any]) -> None:
    """`change`: permissions that were `given` or `taken`, its name `now`, or that it is removed."""
    _write(AuditEvent(action="group changed", actor=actor, detail={"group": group} | change))


def password_set(username: str, *, actor: str) -> None:
    """By somebody else, in admin."""
    _write(AuditEvent(action="password set", actor=actor, username=username, detail={}))


def key_changed(username: str, *, action: str, name: str) -> None:
    """A person made or revoked a key of their own; `name` is what they called it."""
    _write(AuditEvent(action=action, actor=username, username=username, detail={"key": name}))


def second_step_changed(username: str, *, actor: str, action: str) -> None:
    """Codes that are asked for when a person signs in were turned on or off, or made anew."""
    _write(AuditEvent(action=action, actor=actor, username=username, detail={}))


def person_erased(username: str, *, actor: str, pseudonym: str, answers: int) -> None:
    """`username`: the name that the person had. `pseudonym`: what their records say from now on."""
    detail = {"now": pseudonym, "answers": answers}
    _write(AuditEvent(action="person erased", actor=actor, username=username, detail=detail))


def person_exported(username: str, *, actor: str) -> None:
    """All that is kept of a person was given out."""
    _write(AuditEvent(action="person exported", actor=actor, username=username, detail={}))


def sessions_ended(username: str, *, count: int) -> None:
    """A person signed out other browsers."""
    detail = {"sessions": count}
    _write(AuditEvent(action="sessions ended", actor=username, username=username, detail=detail))


def _digest(content: str) -> str | None:
    return _sha256(content) if content else None


def _sha256(content: str) -> str:
    return sha256(content.encode()).hexdigest()


def _of(response: Response, action: str, *, actor: str, detail: dict[str, Any]) -> AuditEvent:
    return AuditEvent(
        action=action,
        actor=actor,
        response_id=response.pk,
        username=response.user.username,
        model=response.model,
        status=response.status,
        detail=detail,
    )


def _write(event: AuditEvent) -> None:
    event.at = timezone.now()
    event.detail = {key: value for key, value in event.detail.items() if value is not None}
    insert(event)
