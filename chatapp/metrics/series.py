"""Every series that a process shows; relay counts (relay/metrics.py), this reads.

No label names a person, a chat or an answer: models are those of the models file, all other labels
words of the code. deploy/RUNBOOK.md has them as a table, which a test compares with this one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from chatapp.metrics.scene import Labelled, Scene, Series
from relay import CircuitState, Counters

if TYPE_CHECKING:
    from chatapp.runtime import Runtime


def _one(read: Callable[[Counters], Any]) -> Callable[[Scene], Labelled]:
    return lambda scene: [((), read(scene.counted))]


def _hub(read: Callable[[Runtime], float]) -> Callable[[Scene], Labelled]:
    return lambda scene: [((), read(scene.runtime))]


def _by_model(figure: str) -> Callable[[Scene], Labelled]:
    return lambda scene: [
        ((name,), getattr(figures, figure)) for name, figures in scene.counted.models.items()
    ]


def _ended(scene: Scene) -> Labelled:
    for name, figures in scene.counted.models.items():
        for (status, reason), count in figures.ended.items():
            yield (name, status, reason), count


def _upstream_errors(scene: Scene) -> Labelled:
    for name, figures in scene.counted.models.items():
        for kind, count in figures.errors.counts.items():
            yield (name, kind), count


def _tally(name: str) -> Callable[[Scene], Labelled]:
    return lambda scene: [
        ((word,), count) for word, count in getattr(scene.counted, name).counts.items()
    ]


def _circuits(scene: Scene) -> Labelled:
    supervisor = scene.runtime.supervisor
    for name, status in supervisor.circuits.states().items() if supervisor else ():
        for state in CircuitState:
            yield (name, state.value), int(status.state is state)


def _supervised(read: Callable[[Any], float]) -> Callable[[Scene], Labelled]:
    """Only where jobs are run."""
    return lambda scene: (
        [((), read(scene.runtime.supervisor))] if scene.runtime.supervisor is not None else []
    )


def _by_shard(figure: str) -> Callable[[Scene], Labelled]:
    return lambda scene: [
        ((str(shard),), value)
        for shard, value in (getattr(scene.vitals, figure) if scene.vitals else {}).items()
    ]


MODEL: Final = ("model",)
SERIES: Final[tuple[Series, ...]] = (
    # -- what people wait for
    Series(
        "unbroken_time_to_first_token_seconds",
        "histogram",
        "From the question until the first content of its answer is in the log",
        _by_model("first_token"),
        MODEL,
    ),
    Series(
        "unbroken_inter_token_seconds",
        "histogram",
        "Time between output tokens as they leave for the log; one value a token",
        _by_model("inter_token"),
        MODEL,
    ),
    Series(
        "unbroken_time_to_last_token_seconds",
        "histogram",
        "From the question until its answer has ended, however it ended",
        _by_model("whole"),
        MODEL,
    ),
    Series(
        "unbroken_cancel_seconds",
        "histogram",
        "From a person's stop until `cancelled`, the upstream closed",
        _one(lambda c: c.cancel),
    ),
    Series(
        "unbroken_responses_ended",
        "counter",
        "Answers recorded as ended, by how",
        _ended,
        ("model", "status", "reason"),
    ),
    Series(
        "unbroken_overdue_responses",
        "gauge",
        "Answers without an end though their time has passed, as the sweep of this process saw",
        _one(lambda c: c.overdue),
    ),
    Series(
        "unbroken_refusals",
        "counter",
        "Questions and streams that were refused: quota, plan, door, store, database",
        _tally("refusals"),
        ("kind",),
    ),
    # -- tokens
    Series(
        "unbroken_input_tokens", "counter", "Of ended answers", _by_model("input_tokens"), MODEL
    ),
    Series(
        "unbroken_output_tokens", "counter", "Of ended answers", _by_model("output_tokens"), MODEL
    ),
    Series(
        "unbroken_delivered_tokens",
        "counter",
        "Output tokens of judged answers that some viewer was handed",
        _one(lambda c: c.delivered_tokens),
    ),
    Series(
        "unbroken_zombie_tokens",
        "counter",
        "Output tokens of judged answers that no viewer was handed",
        _one(lambda c: c.zombie_tokens),
    ),
    # -- upstreams
    Series(
        "unbroken_upstream_requests",
        "counter",
        "Requests to the model's upstream, retries included",
        _by_model("asked"),
        MODEL,
    ),
    Series(
        "unbroken_upstream_errors",
        "counter",
        "Requests that failed, also in mid-answer; left_alone: the circuit was open",
        _upstream_errors,
        ("model", "kind"),
    ),
    Series(
        "unbroken_circuit_state",
        "gauge",
        "1 for the state in which this worker has the model's circuit",
        _circuits,
        ("model", "state"),
    ),
    # -- work
    Series(
        "unbroken_running_responses",
        "gauge",
        "Answers in the hands of this process",
        _supervised(lambda s: s.running),
    ),
    Series(
        "unbroken_jobs_waiting",
        "gauge",
        "Queued answers that no worker has taken, all processes",
        _by_shard("waiting"),
        ("shard",),
    ),
    Series(
        "unbroken_jobs_held",
        "gauge",
        "Answers in the hands of workers, all processes",
        _by_shard("held"),
        ("shard",),
    ),
    Series(
        "unbroken_workers",
        "gauge",
        "Workers that asked for jobs in the last 10 s, all processes",
        _by_shard("workers"),
        ("shard",),
    ),
    Series(
        "unbroken_leases_lapsed",
        "counter",
        "Jobs found in the hands of a worker that had fallen silent",
        _one(lambda c: c.leases_lapsed),
    ),
    Series(
        "unbroken_take_overs",
        "counter",
        "Answers that this worker ended for another, or for want of time",
        _one(lambda c: c.take_overs),
    ),
    Series(
        "unbroken_writers_fenced",
        "counter",
        "Times a writer was refused because its lease was over",
        _one(lambda c: c.fenced),
    ),
    Series(
        "unbroken_finalize_failures",
        "counter",
        "Ends that the database did not take at the first try",
        _one(lambda c: c.finalize_failures),
    ),
    Series(
        "unbroken_repairs",
        "counter",
        "What the sweep of this process has mended, by what",
        _tally("repairs"),
        ("kind",),
    ),
    # -- the log
    Series(
        "unbroken_append_seconds",
        "histogram",
        "Round trips of appends, of many answers each",
        _one(lambda c: c.append),
    ),
    Series(
        "unbroken_append_wait_seconds",
        "counter",
        "The same, times the answers in each",
        _one(lambda c: c.append_wait_s),
    ),
    Series(
        "unbroken_stream_seconds",
        "counter",
        "Time that upstreams were read for; append_wait by this is the share of appends",
        _one(lambda c: c.stream_s),
    ),
    Series(
        "unbroken_commit_window_seconds",
        "gauge",
        "How long events wait for company: 0 in a quiet process",
        _supervised(lambda s: s.window_s),
    ),
    Series("unbroken_events_appended", "counter", "Events", _one(lambda c: c.events_appended)),
    Series("unbroken_appends", "counter", "Append scripts sent", _one(lambda c: c.appends)),
    Series("unbroken_flushes", "counter", "Pipelines of appends", _one(lambda c: c.flushes)),
    # -- viewers
    Series("unbroken_viewers", "gauge", "Open event streams", _hub(lambda r: r.hub.viewers)),
    Series(
        "unbroken_present_viewers",
        "gauge",
        "Presences that this process keeps up; several streams of one page are one",
        _hub(lambda r: r.hub.present),
    ),
    Series(
        "unbroken_followed_responses",
        "gauge",
        "Answers that somebody follows here",
        _hub(lambda r: r.hub.followed),
    ),
    Series(
        "unbroken_viewers_lagging",
        "gauge",
        "Viewers that took nothing of what waits for them for a second or more",
        _one(lambda c: c.viewers_lagging),
    ),
    Series(
        "unbroken_viewer_lag_seconds",
        "gauge",
        "For how long the one that lags most has taken nothing",
        _one(lambda c: c.viewer_lag_s),
    ),
    Series(
        "unbroken_viewers_fallen_back",
        "counter",
        "Times a viewer's buffer was full, so that it reads pages of the log",
        _one(lambda c: c.viewers_lagged),
    ),
    Series(
        "unbroken_resumes",
        "counter",
        "Streams that began behind a cursor",
        _one(lambda c: c.resumes),
    ),
    Series(
        "unbroken_resume_replay_seconds",
        "histogram",
        "From a resume until it had caught up",
        _one(lambda c: c.replay),
    ),
    Series(
        "unbroken_events_delivered",
        "counter",
        "Events handed to the live viewers of an answer, however many they are",
        _one(lambda c: c.events_delivered),
    ),
    Series(
        "unbroken_gap_fills",
        "counter",
        "Reads of the log because a message was lost or late",
        _one(lambda c: c.gap_fills),
    ),
    Series(
        "unbroken_gap_events",
        "counter",
        "Events that those reads delivered",
        _one(lambda c: c.gap_events),
    ),
    # -- the process and what it stands on
    Series(
        "unbroken_event_loop_lag_seconds",
        "histogram",
        "How late the event loop is, looked at once a second",
        _one(lambda c: c.loop_lag),
    ),
    Series(
        "unbroken_store_up",
        "gauge",
        "1 if Redis answered this look",
        lambda scene: [((), int(scene.vitals is not None))],
    ),
    Series(
        "unbroken_audit_unsealed_entries",
        "gauge",
        "Entries of the audit trail that wait for their seal, all processes",
        lambda scene: [((), scene.backlog.unsealed)] if scene.backlog else [],
    ),
    Series(
        "unbroken_audit_unsealed_age_seconds",
        "gauge",
        "Age of the oldest of them",
        lambda scene: [((), scene.backlog.oldest_age_s)] if scene.backlog else [],
    ),
    Series(
        "unbroken_store_memory_ratio",
        "gauge",
        "Part of maxmemory that is used, in the fullest server; 0 without a limit",
        lambda scene: [((), scene.vitals.memory_share)] if scene.vitals else [],
    ),
)
