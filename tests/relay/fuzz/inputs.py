"""Inputs: recorded answers that were cut, spliced and spoiled, and plain garbage, in pieces."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st

from tests.relay.dialects.corpus import chunks_of, load

SPICES = [
    *(b"\n", b"\n\n", b"\r", b"\r\n\r\n", b"data: ", b"data:", b"event: error\n", b": ping\n\n"),
    *(b"error: {}\n\n", b"data: [DONE]\n\n", b"id: 1\n", b"\xef\xbb\xbf", b"\0", b"\xff\xf0\x9f"),
    *(b"{", b"}", b"[", b"]", b'"', b"\\", b",", b":", b"null", b"true", b"-1", b"1e999", b"NaN"),
    *(b"\\ud83d", b"\\ude00", b"\\u0000", b"\xf0\x9f\x98\x80", b"<think>", b"</think>", b"stop"),
    *(b'"index":', b'"id":', b'"type":', b'"error":{}', b'"usage":null', b'"choices":[]', b"aab"),
    *(b"[" * 3000, b'{"a":' * 3000, b"9" * 5000, b"\n" * 300, b'"finish_reason":"stop"'),
]


def inputs(name: str) -> st.SearchStrategy[Sequence[bytes]]:
    """Inputs for the target `name`; the dialects' own recordings first."""
    dialect = name if name not in ("refusals", "sse", "detok", "stops", "partial_json") else None
    bodies = [b"".join(chunks_of(case)) for case in (load(dialect) if dialect else load())]
    if name == "partial_json":
        bodies = [body[at:] for body in bodies if (at := body.find(b"{")) >= 0]
    bodies = sorted({body[:6000] for body in bodies}, key=len)
    changes = st.tuples(
        st.sampled_from(["cut", "insert", "replace", "repeat", "delete"]),
        st.floats(0, 1),
        st.integers(1, 40),
        st.sampled_from(SPICES) | st.binary(max_size=4),
    )
    spoiled = st.builds(
        _spoiled,
        st.sampled_from(bodies),
        st.sampled_from(bodies),
        st.lists(changes, max_size=5),
    )
    soup = st.lists(st.sampled_from(SPICES) | st.binary(max_size=6), max_size=25).map(b"".join)
    cuts = st.lists(st.floats(0, 1), max_size=6)
    return st.builds(_pieces, spoiled | soup, cuts)


def _spoiled(body: bytes, other: bytes, changes: list[tuple[str, float, int, bytes]]) -> bytes:
    for kind, where, length, spice in changes:
        at = int(where * len(body))
        match kind:
            case "cut":  # and go on with another recording
                body = body[:at] + other[int(where * len(other)) :]
            case "insert":
                body = body[:at] + spice + body[at:]
            case "replace":
                body = body[:at] + spice + body[at + length :]
            case "repeat":
                body = body[:at] + body[max(0, at - length) :]
            case _:
                body = body[:at] + body[at + length :]
    return body


def _pieces(data: bytes, cuts: list[float]) -> Sequence[bytes]:
    at = sorted(int(cut * len(data)) for cut in cuts)
    return [data[a:b] for a, b in zip([0, *at], [*at, len(data)], strict=True)]
