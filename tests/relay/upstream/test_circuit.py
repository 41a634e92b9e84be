"""An upstream that keeps failing is left alone, and asked again by one at a time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from relay.config import ModelConfig
from relay.errors import ErrorKind, UpstreamError
from relay.upstream.circuit import FAILURES, OPEN_S, Circuit, Circuits, CircuitState, CircuitStatus


def failure(kind: ErrorKind = ErrorKind.CONNECTION) -> UpstreamError:
    return UpstreamError(kind, "It failed.")


def opened(at_s: float = 0.0) -> Circuit:
    circuit = Circuit()
    for _ in range(FAILURES):
        circuit.failed(failure(), at_s)
    return circuit


def test_it_opens_after_so_many_failures_in_a_row_and_no_sooner() -> None:
    circuit = Circuit()
    for _ in range(FAILURES - 1):
        circuit.failed(failure(), 0.0)
    assert circuit.admit(0.0) == 0.0
    circuit.succeeded()
    for _ in range(FAILURES - 1):
        circuit.failed(failure(), 0.0)
    assert circuit.admit(0.0) == 0.0
    circuit.failed(failure(), 0.0)
    assert (circuit.state, circuit.admit(10.0)) == (CircuitState.OPEN, OPEN_S - 10.0)


def test_one_may_try_while_others_wait() -> None:
    circuit = opened()
    assert circuit.admit(OPEN_S) == 0.0
    assert circuit.state is CircuitState.HALF_OPEN
    assert circuit.admit(OPEN_S) > 0.0


def test_the_end_of_the_trial_decides() -> None:
    circuit = opened()
    circuit.admit(OPEN_S)
    circuit.failed(failure(), OPEN_S + 1)
    assert (circuit.state, circuit.admit(OPEN_S + 2)) == (CircuitState.OPEN, OPEN_S - 1)
    circuit.admit(2 * OPEN_S + 1)
    circuit.answering()
    assert circuit.admit(2 * OPEN_S + 2) == 0.0
    assert (circuit.state, circuit.failures) == (CircuitState.CLOSED, 0)


def test_an_upstream_that_dies_in_the_middle_of_each_answer_is_noticed() -> None:
    circuit = Circuit()
    for _ in range(FAILURES):
        circuit.answering()
        circuit.failed(failure(ErrorKind.TRUNCATED), 0.0)
    assert circuit.state is CircuitState.OPEN


def test_failures_of_requests_that_were_on_their_way_do_not_prolong_the_wait() -> None:
    circuit = opened(0.0)
    circuit.failed(failure(), 10.0)
    assert circuit.admit(10.0) == OPEN_S - 10.0


def test_a_trial_that_is_never_told_of_does_not_close_it_for_ever() -> None:
    circuit = opened()
    circuit.admit(OPEN_S)
    assert circuit.admit(2 * OPEN_S) == 0.0


@pytest.mark.parametrize(
    "kind", [ErrorKind.AUTHENTICATION, ErrorKind.INVALID_REQUEST, ErrorKind.CONTEXT_LENGTH]
)
def test_a_refusal_shows_that_the_upstream_is_there(kind: ErrorKind) -> None:
    circuit = opened()
    circuit.admit(OPEN_S)
    circuit.failed(failure(kind), OPEN_S)
    assert circuit.state is CircuitState.CLOSED
    assert circuit.last_error is not None


def test_a_rate_limit_is_about_us() -> None:
    circuit = Circuit()
    for _ in range(2 * FAILURES):
        circuit.failed(failure(ErrorKind.RATE_LIMIT), 0.0)
    assert circuit.state is CircuitState.CLOSED


def test_models_that_share_an_upstream_share_its_circuit() -> None:
    model = ModelConfig(name="a", dialect="openai-chat", base_url="http://x", upstream_model="u")
    circuits = Circuits()
    assert circuits.of(model) is circuits.of(replace(model, name="b"))
    assert circuits.of(model) is not circuits.of(replace(model, upstream_model="v"))


def test_changes_are_told_with_the_states_of_all_models_by_name() -> None:
    model = ModelConfig(name="a", dialect="openai-chat", base_url="http://x", upstream_model="u")
    told: list[Mapping[str, CircuitStatus]] = []
    circuits = Circuits(told.append)
    circuits.of(replace(model, name="b"))
    circuit = circuits.of(model)
    circuit.succeeded()
    assert told == [], "nothing has changed"
    circuit.failed(failure(), 0.0, "2026-03-01T12:00:00Z")
    status = CircuitStatus(
        state=CircuitState.CLOSED,
        failures=1,
        last_error_kind="connection",
        last_error_message="It failed.",
        last_error_at="2026-03-01T12:00:00Z",
    )
    assert told == [{"b": status, "a": status}]
    circuit.succeeded()
    assert told[-1] == circuits.states()
    assert told[-1]["a"] == replace(status, failures=0), "the last error stays to be read"
