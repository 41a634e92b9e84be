"""Whatever comes in, no parser raises anything but its own, or says what cannot be true.

Inputs are made from numbers that are the same in every run; only how many there are depends on the
time: a second for each parser, ten in CI, `make fuzz` takes two minutes.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence

import pytest
from hypothesis import HealthCheck, given, seed, settings

from tests.relay.fuzz.inputs import inputs
from tests.relay.fuzz.targets import TARGETS

DURATION_S = float(os.environ.get("FUZZ_S") or (10 if os.environ.get("CI") else 1))
BATCH = 100


@pytest.mark.timeout(DURATION_S * 3 + 60)
@pytest.mark.parametrize("name", TARGETS)
def test_nothing_that_comes_in_is_a_surprise(name: str) -> None:
    made, target = inputs(name), TARGETS[name]
    until_s, batch = time.monotonic() + DURATION_S, 0
    while batch == 0 or time.monotonic() < until_s:

        @seed(batch)
        @settings(
            max_examples=BATCH,
            database=None,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        )
        @given(made)
        def no_surprise(pieces: Sequence[bytes]) -> None:
            target(pieces)

        no_surprise()
        batch += 1
    print(f"{name}: {batch * BATCH} inputs")
