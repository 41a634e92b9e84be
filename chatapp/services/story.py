"""One answer as a story: what happened to it, in order, for whoever is asked about it later.

Figures and names only. What was asked and answered is apart (`texts`): to read it is an act of its
own, which leaves an audit entry.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

import msgspec

from chatapp.models import AuditEvent, Response, Visit
from chatapp.services.reading import recorded
from relay import GenerationRequest, Snapshot, Story

if TYPE_CHECKING:
    from collections.abc import Iterator

MOST_STEPS: Final = 300
"""Of viewers and of audit entries each: a page that can be read."""
GAP_MS: Final = 1000
"""A pause between tokens that a reader notices."""
_TOLD: Final = {"created", "begun", "stopped", "ended"}
"""Audit entries that the record itself tells better."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    at: datetime | None
    """None: not known; it stands where it happened."""
    what: str
    detail: str = ""
    kind: str = ""
    """For its look: `end`, `stop`, `viewer`, `trouble`, or nothing in particular."""
    after_ms: int | None = None
    """Since the question."""


def story_of(row: Response) -> Story:
    """As recorded; an empty one where nothing is, also of answers older than stories."""
    try:
        return Story.from_json(row.story) if row.story else Story()
    except msgspec.ValidationError:  # of a later version
        return Story()


def steps_of(row: Response) -> list[Step]:
    """In order. Three statements, however much happened."""
    story, snapshot = story_of(row), recorded(row)
    found = [
        *_asked(row),
        *_begun(row, story),
        *_came(row, story, snapshot),
        *_viewers(row),
        *_wishes(row),
        *_ended(row, snapshot),
    ]
    placed: list[tuple[datetime, int, Step]] = []
    at = row.created_at
    for n, step in enumerate(found):
        at = step.at or at
        placed.append((at, n, step))
    placed.sort(key=lambda one: one[:2])
    return [_since(row, step) for _, _, step in placed]


def _since(row: Response, step: Step) -> Step:
    if step.at is None:
        return step
    after_ms = max(0, round((step.at - row.created_at).total_seconds() * 1000))
    return Step(at=step.at, what=step.what, detail=step.detail, kind=step.kind, after_ms=after_ms)


def _asked(row: Response) -> Iterator[Step]:
    how = f"with the key {row.idempotency_key}" if row.idempotency_key else ""
    yield Step(at=row.created_at, what=f"Asked by {row.user.username} of {row.model}", detail=how)
    if row.waits:
        yield Step(at=row.created_at, what="Waits for another answer of its chat")
    else:
        yield Step(at=row.created_at, what="Queued")


def _begun(row: Response, story: Story) -> Iterator[Step]:
    runs = {run.epoch: run for run in story.runs}
    claims = dict(story.claims)
    for epoch in sorted({*runs, *claims}):
        run, worker = runs.get(epoch), claims.get(epoch, "a worker")
        at = _moment(run.at) if run is not None and run.at else _of_epoch(epoch)
        detail = f"epoch {epoch}"
        if run is None:
            what = f"Taken over by {worker}, to be ended"
            yield Step(at=at, what=what, detail=detail, kind="trouble")
            continue
        yield Step(at=at, what=f"Claimed by {worker}", detail=detail)
        yield Step(
            at=at,
            what=f"Attempt {run.attempt} begun",
            detail=run.upstream_model,
            kind="" if run.attempt == 1 else "trouble",
        )
        last = min((one.seq for one in story.runs if one.seq > run.seq), default=None)
        for said in story.said:
            if said.seq > run.seq and (last is None or said.seq < last):
                what = f"Notice: {said.code.replace('_', ' ')}"
                yield Step(at=None, what=what, detail=said.model or "", kind="trouble")
    if not runs and not claims and row.started_at:  # recorded before there were stories
        yield Step(at=row.started_at, what=f"Claimed by {row.worker or 'a worker'}")


def _came(row: Response, story: Story, snapshot: Snapshot) -> Iterator[Step]:
    first_text_at = _moment(snapshot.timings.first_text_at)
    if row.first_token_at:
        yield Step(at=row.first_token_at, what="First token")
        if first_text_at and first_text_at > row.first_token_at:
            yield Step(at=first_text_at, what="Reasoning gave way to the answer")
    at_ms, gap_ms = story.longest_gap
    if gap_ms >= GAP_MS and row.started_at:
        at = row.started_at + timedelta(milliseconds=at_ms)
        detail = f"{gap_ms / 1000:.1f} s without a token"
        yield Step(at=at, what="The longest pause began", detail=detail, kind="trouble")


def _viewers(row: Response) -> Iterator[Step]:
    for visit in Visit.objects.filter(response_id=row.pk)[:MOST_STEPS]:
        who = f"Viewer {visit.viewer[:8]}"
        came = f"from event {visit.from_seq + 1}" if visit.from_seq else "from the beginning"
        yield Step(at=visit.came_at, what=f"{who} came", detail=came, kind="viewer")
        handed = f"handed up to event {visit.to_seq}" if visit.to_seq else "handed nothing"
        yield Step(at=visit.left_at, what=f"{who} went", detail=handed, kind="viewer")


def _wishes(row: Response) -> Iterator[Step]:
    if row.stop_requested_at:
        who = row.stop_by or "the site itself"
        detail = row.stop_reason
        yield Step(at=row.stop_requested_at, what=f"Stop by {who}", detail=detail, kind="stop")
    entries = AuditEvent.objects.filter(response_id=row.pk).exclude(action__in=_TOLD)
    for entry in entries.order_by("at", "id")[:MOST_STEPS]:
        what = f"{entry.action.capitalize()} by {entry.actor or 'the site itself'}"
        yield Step(at=entry.at, what=what, detail=str(entry.detail.get("how", "")))


def _ended(row: Response, snapshot: Snapshot) -> Iterator[Step]:
    if not row.is_final:
        return
    parts = [row.reason, snapshot.finish_reason or ""]
    if snapshot.error is not None:
        parts.append("may be tried again" if snapshot.error.retryable else "not to be tried again")
    detail = ", ".join(dict.fromkeys(part.replace("_", " ") for part in parts if part))
    yield Step(at=row.ended_at, what=f"Ended: {row.status}", detail=detail, kind="end")


def _of_epoch(epoch: int) -> datetime:
    """An epoch is the store's time of its claim, in ms, or a little more (PROTOCOL 2.1)."""
    return datetime.fromtimestamp(epoch / 1000, UTC)


def _moment(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None


def settings_of(row: Response) -> list[tuple[str, str]]:
    """How the model was asked, without a word of what was said."""
    request = _request(row)
    if request is None:
        return []
    wish = request.on_disconnect
    told: dict[str, Any] = {
        "Messages": len(request.messages),
        "Left out, to fit": row.left_out or None,
        "With pictures": "yes" if request.has_images else None,
        "Instructions": f"{len(request.instructions)} characters" if request.instructions else None,
        "Temperature": request.temperature,
        "Most output tokens": request.max_output_tokens,
        "Stop strings": len(request.stop) or None,
        "Tools": len(request.tools) or None,
        "Goes on with an answer": "yes" if request.continues else None,
        "Cancelled when nobody watches for": _seconds(wish.cancel_after_s),
        "Cancelled when all have left for": _seconds(wish.leave_after_s),
    }
    return [(name, str(value)) for name, value in told.items() if value is not None]


def _seconds(count: float | None) -> str | None:
    return None if count is None else f"{count:g} s"


def _request(row: Response) -> GenerationRequest | None:
    try:
        return GenerationRequest.from_json(row.request) if row.request else None
    except msgspec.ValidationError:
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Texts:
    """All content of one answer, exactly as it was sent."""

    asked: list[tuple[str, str]]
    """(role, content): a text, or its parts as JSON."""
    instructions: str
    stop: list[str]
    metadata: str
    snapshot: Snapshot
    tool_calls: list[tuple[str, str, str]]
    """(name, call id, arguments as JSON or as far as they came)."""


def texts(row: Response) -> Texts:
    """Whoever is shown this is told of in the audit trail first (`audit.text_read`)."""
    request, snapshot = _request(row), recorded(row)
    return Texts(
        asked=[
            (str(turn.get("role", "")), _content(turn.get("content")))
            for turn in (request.messages if request else [])
        ],
        instructions=(request.instructions if request else None) or "",
        stop=list(request.stop) if request else [],
        metadata="" if row.metadata == "{}" else row.metadata,
        snapshot=snapshot,
        tool_calls=[
            (call.name, call.call_id, call.raw if call.arguments is None else _json(call.arguments))
            for call in snapshot.tool_calls
        ],
    )


def _content(content: Any) -> str:
    return content if isinstance(content, str) else _json(content)


def _json(value: Any) -> str:
    return msgspec.json.format(msgspec.json.encode(value)).decode()
