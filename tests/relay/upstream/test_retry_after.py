"""How long a provider wants to be left in peace."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from relay.upstream.retry_after import retry_after_s

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("headers", "wait_s"),
    [
        ({"retry-after-ms": "1500", "retry-after": "2"}, 1.5),
        ({"retry-after": "Sun, 01 Mar 2026 12:00:07 GMT"}, 7),
        ({"retry-after": "-3"}, 0),
        ({"retry-after": "1e9999"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "5", "x-ratelimit-reset": "50"}, 5),
        ({"x-ratelimit-reset-requests": "6m0s"}, 360),
        ({"x-ratelimit-reset-tokens": "120ms"}, 0.12),
        ({"x-ratelimit-reset-tokens": "2m59.56s"}, 179.56),
        ({"x-ratelimit-reset-requests": "1h2m"}, 3720),
        ({"x-ratelimit-reset": "1772366430"}, 30),
        ({"X-RateLimit-Reset": "1772366430000"}, 30),
        ({"RateLimit-Reset": "12"}, 12),
        ({"anthropic-ratelimit-requests-reset": "2026-03-01T12:00:30Z"}, 30),
        ({"x-ratelimit-reset-tokens": "3d"}, 86_400),
        ({"x-ratelimit-reset-tokens": "1.2.3s"}, 0),
        ({"x-ratelimit-reset-tokens": ""}, None),
        ({"x-ratelimit-limit-tokens": "5"}, None),
        ({"x-request-reset": "5"}, None),
    ],
)
def test_every_way_of_saying_it_is_understood(
    headers: dict[str, str], wait_s: float | None
) -> None:
    assert retry_after_s(headers, now=NOW, budgets=True) == (
        None if wait_s is None else pytest.approx(wait_s)
    )


def test_the_empty_bucket_that_is_refilled_last_decides() -> None:
    headers = {
        "x-ratelimit-remaining-requests": "99",
        "x-ratelimit-reset-requests": "8m",
        "x-ratelimit-remaining-tokens": "0",
        "x-ratelimit-reset-tokens": "7s",
        "anthropic-ratelimit-output-tokens-remaining": "0",
        "anthropic-ratelimit-output-tokens-reset": "2026-03-01T12:00:09Z",
    }
    assert retry_after_s(headers, now=NOW, budgets=True) == 9
    assert retry_after_s(headers, now=NOW) is None
