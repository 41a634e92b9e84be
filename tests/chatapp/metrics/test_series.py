"""What /metrics shows: all series, by the rules of OpenMetrics, and no more than promised."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from asgiref.sync import sync_to_async
from prometheus_client.openmetrics import parser

from chatapp import catalog
from chatapp.finalize import Records
from chatapp.metrics import SERIES, exposition
from relay import COUNTERS, OTHER, Counters, End
from tests.chatapp.conftest import make_row
from tests.chatapp.test_finalize import outcome

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

    from chatapp.models import Response, User
    from relay import MemoryStore

ROOT = Path(__file__).resolve().parents[3]
RUNBOOK = (ROOT / "deploy" / "RUNBOOK.md").read_text()
OPENMETRICS = "application/openmetrics-text; version=1.0.0"
SUFFIXES = {"counter": "_total", "gauge": "", "histogram": ""}


@pytest.fixture(autouse=True)
def counted(monkeypatch: pytest.MonkeyPatch) -> Counters:
    for name in Counters.__slots__:
        monkeypatch.setattr(COUNTERS, name, getattr(Counters(), name))
    return COUNTERS


def families_of(body: bytes) -> list[Metric]:
    parse: Any = parser.text_string_to_metric_families  # untyped
    return list(parse(body.decode()))


async def shown() -> dict[str, float]:
    """Every sample, by its name and labels."""
    body, _ = await exposition(OPENMETRICS)
    return {
        f"{sample.name}{sorted(sample.labels.items())}": sample.value
        for family in families_of(body)
        for sample in family.samples
    }


def value(samples: dict[str, float], name: str, **labels: str) -> float:
    return samples[f"{name}{sorted(labels.items())}"]


async def test_every_series_is_shown_and_reads_as_openmetrics(
    store: MemoryStore, transactional_db: None
) -> None:
    body, content_type = await exposition(OPENMETRICS)
    assert content_type.startswith("application/openmetrics-text")
    families = {family.name: family for family in families_of(body)}
    for series in SERIES:
        family = families[series.name]
        assert (family.type, family.documentation) == (series.kind, series.help)
        assert re.fullmatch(r"unbroken_[a-z_]+", series.name)
        assert not series.name.endswith(("_total", "_count", "_sum", "_bucket"))
    plain, content_type = await exposition("")
    assert content_type.startswith("text/plain")
    assert b"unbroken_store_up 1.0" in plain
    assert b"process_cpu_seconds_total" in plain


def test_the_table_of_the_runbook_is_the_code() -> None:
    rows = re.findall(r"^\| `(unbroken_\w+)` \| (\w+) \| (.*?) \| (.*?) \|$", RUNBOOK, re.MULTILINE)
    assert rows == [
        (
            series.name + SUFFIXES[series.kind],
            series.kind,
            ", ".join(f"`{label}`" for label in series.labels) or "none",
            series.help,
        )
        for series in SERIES
    ]


async def test_an_end_is_counted_once_with_its_tokens_and_times(
    store: MemoryStore, row: Response
) -> None:
    await Records().finalize(outcome(row.pk))
    await Records().finalize(outcome(row.pk))  # as a repair would
    samples = await shown()
    ended = {"model": "fast", "status": "completed", "reason": ""}
    assert value(samples, "unbroken_responses_ended_total", **ended) == 1
    assert value(samples, "unbroken_input_tokens_total", model="fast") == 11
    assert value(samples, "unbroken_output_tokens_total", model="fast") == 3
    assert value(samples, "unbroken_time_to_last_token_seconds_count", model="fast") == 1
    assert value(samples, "unbroken_cancel_seconds_count") == 0


async def test_a_persons_stop_is_timed_and_an_abandoned_answer_is_not(
    store: MemoryStore, user: User
) -> None:
    stopped = await sync_to_async(make_row)(
        user, stop_requested_at=datetime(2026, 1, 1, 0, 0, 1, 500_000, UTC)
    )
    left = await sync_to_async(make_row)(user)
    await Records().finalize(outcome(stopped.pk, end=End.cancelled("user")))
    await Records().finalize(outcome(left.pk, end=End.cancelled("abandoned")))
    assert COUNTERS.cancel.count == 1
    assert COUNTERS.cancel.total == pytest.approx(0.5)


async def test_ten_thousand_odd_names_add_no_series(
    store: MemoryStore, user: User, counted: Counters
) -> None:
    before = len(await shown())
    odd = await sync_to_async(make_row)(user, model="not of the models file")
    await Records().finalize(outcome(odd.pk))
    for n in range(10_000):
        name = f'odd-{n}"}}\n\N{SNOWMAN}'
        counted.refusals.add(name)
        counted.repairs.add(name)
        counted.model("fast").errors.add(name)
        counted.model("fast").end(name, name)
    after = await shown()  # a model named `other` is in the file already
    assert len(after) == before
    assert "odd-" not in str(after.keys())
    assert value(after, "unbroken_refusals_total", kind=OTHER) == 10_000


async def test_models_of_the_file_are_there_from_the_start(
    store: MemoryStore, transactional_db: None
) -> None:
    """A counter that begins with 1 is no increase to whoever asks for one."""
    samples = await shown()
    for model in catalog.models():
        assert value(samples, "unbroken_upstream_errors_total", model=model, kind="stalled") == 0
        stalled = {"model": model, "status": "failed", "reason": "stalled"}
        assert value(samples, "unbroken_responses_ended_total", **stalled) == 0


async def test_what_waits_for_its_seal_is_shown(
    store: MemoryStore, row: Response, settings: Any
) -> None:
    assert value(await shown(), "unbroken_audit_unsealed_entries") == 0
    await Records().finalize(outcome(row.pk))  # writes an entry
    assert value(await shown(), "unbroken_audit_unsealed_entries") == 1


async def test_without_the_store_the_rest_is_shown(
    store: MemoryStore, transactional_db: None
) -> None:
    assert value(await shown(), "unbroken_jobs_waiting", shard="0") == 0
    store.faults.unreachable = True
    samples = await shown()
    assert value(samples, "unbroken_store_up") == 0
    assert "unbroken_jobs_waiting[('shard', '0')]" not in samples
    assert value(samples, "unbroken_viewers") == 0


def test_quotas_are_refused_by_words_that_metrics_know() -> None:
    from chatapp.services import errors

    kinds = {
        refused.kind
        for refused in vars(errors).values()
        if isinstance(refused, type) and issubclass(refused, errors.Refused)
    }
    assert kinds - {"other"} <= set(COUNTERS.refusals.counts)
    assert {"running", "tokens", "plan", "store_full", "store_away"} <= kinds
