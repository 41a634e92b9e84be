"""Stop strings in a text that is still being written.

The text ends before the first stop string to be complete; of those that are complete at the same
character, before the longest. What could be the beginning of one is held back, because a text that
was shown cannot be taken back; it is released as soon as it can no longer become one, or when
nothing more comes. All of that depends on the characters alone, not on how they were cut.

An Aho-Corasick automaton does it: its state is the longest beginning of any stop string that the
text ends with, and that beginning is what must be held back. One dictionary look-up per character,
however many stop strings there are and however they overlap.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable


class StopScanner:
    """One text. Empty stop strings mean nothing; without any other, everything passes."""

    def __init__(self, stops: Iterable[str]) -> None:
        self.match: str | None = None
        """The stop string that ended the text; once set, nothing more is shown."""
        self._build([stop for stop in stops if stop])
        self._state = 0
        self._held = ""

    def _build(self, stops: list[str]) -> None:
        """States are numbered; 0 is the root. Per state: its moves, the depth, the longest stop."""
        moves: list[dict[str, int]] = [{}]
        depth = [0]
        stop_at: list[str | None] = [None]
        for stop in stops:
            state = 0
            for char in stop:
                if char not in moves[state]:
                    moves[state][char] = len(moves)
                    moves.append({})
                    depth.append(depth[state] + 1)
                    stop_at.append(None)
                state = moves[state][char]
            stop_at[state] = stop
        # Breadth first: a state's fallback is shallower and so already done. A state without a stop
        # of its own takes its fallback's, which is shorter: the longest wins.
        fallback = [0] * len(moves)
        queue = deque(moves[0].values())
        while queue:
            state = queue.popleft()
            for char, child in moves[state].items():
                queue.append(child)
                at = fallback[state]
                while at and char not in moves[at]:
                    at = fallback[at]
                fallback[child] = moves[at].get(char, 0)
                stop_at[child] = stop_at[child] or stop_at[fallback[child]]
        self._moves, self._depth, self._fallback, self._stop_at = moves, depth, fallback, stop_at
        firsts = "".join(re.escape(char) for char in moves[0])
        self._first = re.compile(f"[{firsts}]" if firsts else r"(?!)")

    def feed(self, text: str) -> str:
        """Return what may be shown; it may be empty."""
        if self.match is not None:
            return ""
        # Most texts hold no beginning at all, and the regular expression finds that out in C.
        if not self._state:
            found = self._first.search(text)
            if found is None:
                return text
            start = found.start()
        else:
            start = 0
        moves, fallback, state = self._moves, self._fallback, self._state
        for at in range(start, len(text)):
            char = text[at]
            while state and char not in moves[state]:
                state = fallback[state]
            state = moves[state].get(char, 0)
            if stop := self._stop_at[state]:
                self.match = stop
                shown = self._held + text[: at + 1]
                self._held, self._state = "", 0
                return shown[: -len(stop)]
        self._state = state
        shown = self._held + text
        held = self._depth[state]
        self._held = shown[len(shown) - held :]
        return shown[: len(shown) - held]

    def finish(self) -> str:
        """No more text: what was held back was no stop string."""
        held, self._held, self._state = self._held, "", 0
        return held
