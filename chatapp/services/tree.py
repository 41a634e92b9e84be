"""The shape of a chat: what is a version of what, and where a branch ends. Pure: no database.

A question is a version of its siblings. An answer that was gone on with is a chain of messages,
and to a person it is one answer; so the versions of an answer are the ends of all such chains below
its question.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

ANSWER: Final = "assistant"


class Node(NamedTuple):
    pk: int
    parent_id: int | None
    role: str


class Tree:
    """All messages of one chat, given in the order in which they were written."""

    def __init__(self, nodes: Iterable[Node]) -> None:
        self._nodes: dict[int, Node] = {}
        self._below: defaultdict[int | None, list[Node]] = defaultdict(list)
        for node in nodes:
            self._nodes[node.pk] = node
            self._below[node.parent_id].append(node)

    def __repr__(self) -> str:
        return f"<Tree of {len(self._nodes)} messages>"

    def versions_of(self, pk: int) -> list[int]:
        """Itself among them, oldest first. Of an answer, `pk` is the end of its chain."""
        node = self._nodes[pk]
        if node.role != ANSWER:
            return [n.pk for n in self._below[node.parent_id] if n.role == node.role]
        above = node.parent_id
        while above is not None and self._nodes[above].role == ANSWER:
            above = self._nodes[above].parent_id
        ends = set(self._ends_below(above))
        return [pk for pk in self._nodes if pk in ends]

    def leaf_below(self, pk: int) -> int:
        """Where the branch through this message ends: by whatever was written last below it.

        What was said after an answer goes before what went on with it: that is a version of its
        own, and has an end of its own to be chosen by.
        """
        while below := self._below[pk]:
            after = [node for node in below if node.role != ANSWER]
            pk = (after or below)[-1].pk
        return pk

    def _ends_below(self, pk: int | None) -> Iterator[int]:
        stack = [node for node in self._below[pk] if node.role == ANSWER]
        while stack:
            node = stack.pop()
            further = [n for n in self._below[node.pk] if n.role == ANSWER]
            if len(further) < len(self._below[node.pk]) or not further:
                yield node.pk
            stack += further
