"""When a result agrees with the `expect` of a case (the corpus' README, "Comparison rules")."""

from __future__ import annotations

from typing import Any

NOT_IN_OUR_EVENTS = frozenset(
    {"keep_alives_min", "server_tool_calls", "other_choices", "stop_match"}
)


def disagreements(result: dict[str, Any], case: dict[str, Any]) -> dict[str, Any]:
    """What differs from `expect`, or from the nearest of the accepted alternatives."""
    expects = [case["expect"], *({**case["expect"], **other} for other in case.get("accept") or [])]
    return min((_differences(result, expect) for expect in expects), key=len)


def _differences(result: dict[str, Any], expect: dict[str, Any]) -> dict[str, Any]:
    differing = {}
    for name, wanted in expect.items():
        if name in NOT_IN_OUR_EVENTS:
            continue
        got = result[name]
        if name == "tool_calls":
            same = _calls_agree(got, wanted)
        elif name == "usage":
            same = _usage_agrees(got, wanted)
        elif name == "finish_reason" and expect["terminal_state"] in ("failed", "cancelled"):
            same = wanted is None or got in (wanted, None)
        elif name == "retryable" and wanted is None:
            same = True
        else:
            same = got == wanted
        if not same:
            differing[name] = (got, wanted)
    return differing


def _usage_agrees(got: dict[str, int] | None, wanted: dict[str, int] | None) -> bool:
    if wanted is None or got is None:
        return got is None and not wanted
    return all(got.get(name) == n for name, n in wanted.items() if name != "cache_write_tokens")


def _calls_agree(got: list[dict[str, Any]], wanted: list[dict[str, Any]]) -> bool:
    ids = [call["id"] for call in got]
    if len(got) != len(wanted) or len(set(ids)) != len(ids) or not all(ids):
        return False
    for call, want in zip(got, wanted, strict=True):
        for name, value in want.items():
            if name == "error":
                if not call.get("error"):
                    return False
            elif (name != "id" or value is not None) and call.get(name) != value:
                return False
    return True
