"""Hops that hold a stream back, each by its own rule: when every frame of a plan comes out."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from chatapp.doctor import Plan
from chatapp.doctor.observed import Arrival

Sent = Sequence[tuple[int, int, float]]
"""Frames: number, size in bytes, time in seconds."""
Hop = Callable[[Sent], list[float]]
"""When each of them comes out, in the same order."""
SKEW_S = 1_800_000_000.0
"""Between the server's wall clock and the viewer's count of seconds."""
GAP_MS = 100


def sent(gap_ms: int = GAP_MS) -> list[tuple[int, int, float]]:
    frames, now_s = [], 0.0
    for step in Plan(probe="x" * 8, gap_ms=gap_ms).steps():
        now_s += step.pause_s
        frames.append((step.n, len(step.frame(SKEW_S + now_s)), now_s))
    return frames


def through(hop: Hop, gap_ms: int = GAP_MS) -> list[Arrival]:
    frames = sent(gap_ms)
    return [
        Arrival(n, size_bytes, SKEW_S + at_s, out_s + 0.02)
        for (n, size_bytes, at_s), out_s in zip(frames, hop(frames), strict=True)
    ]


def promptly(frames: Sent) -> list[float]:
    return [at_s for _, _, at_s in frames]


def whole(frames: Sent) -> list[float]:
    return [frames[-1][2]] * len(frames)


def by_bytes(size_bytes: int, *, exactly: bool) -> Hop:
    """Lets all go once it has so many; `exactly` so many and keeps the rest."""

    def hop(frames: Sent) -> list[float]:
        out = [frames[-1][2]] * len(frames)
        done, held_bytes, total_bytes, let_go_bytes = 0, 0, 0, 0
        for index, (_, size, at_s) in enumerate(frames):
            held_bytes, total_bytes = held_bytes + size, total_bytes + size
            if held_bytes < size_bytes:
                continue
            kept_bytes = held_bytes % size_bytes if exactly else 0
            let_go_bytes, held_bytes = total_bytes - kept_bytes, kept_bytes
            while done <= index and sum(f[1] for f in frames[: done + 1]) <= let_go_bytes:
                out[done], done = at_s, done + 1
        return out

    return hop


def by_time(every_s: float) -> Hop:
    def hop(frames: Sent) -> list[float]:
        end_s = frames[-1][2]
        return [min((int(at_s / every_s) + 1) * every_s, end_s) for _, _, at_s in frames]

    return hop


def tail_kept(frames: Sent) -> list[float]:
    """nginx: what fills a page goes on, and its end with the next frame."""
    later = [at_s for _, _, at_s in frames[1:]] + [frames[-1][2]]
    return [
        next_s if size_bytes > 4096 else at_s
        for (_, size_bytes, at_s), next_s in zip(frames, later, strict=True)
    ]


def stalling(at_s: float, for_s: float) -> Hop:
    """A machine that is busy with something else for a moment."""

    def hop(frames: Sent) -> list[float]:
        return [max(t, at_s + for_s) if t >= at_s else t for _, _, t in frames]

    return hop
