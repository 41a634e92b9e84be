"""Versions and ends of branches, by the shape of a chat alone."""

from __future__ import annotations

from chatapp.services.tree import Node, Tree

#  1 q ─ 2 a ─┬─ 3 q ─ 4 a
#             ├─ 5 q ─ 6 a
#             └─ 9 a            goes on with 2
#      └ 7 a ─── 8 q            beside 2, with a question nobody has answered yet
# 10 q ─ 11 a ─ 12 a ─ 13 a     goes on twice
NODES = [
    *(Node(1, None, "user"), Node(2, 1, "assistant")),
    *(Node(3, 2, "user"), Node(4, 3, "assistant")),
    *(Node(5, 2, "user"), Node(6, 5, "assistant")),
    *(Node(7, 1, "assistant"), Node(8, 7, "user")),
    Node(9, 2, "assistant"),
    *(Node(10, None, "user"), Node(11, 10, "assistant")),
    *(Node(12, 11, "assistant"), Node(13, 12, "assistant")),
]
TREE = Tree(NODES)


def test_questions_with_the_same_parent_are_versions_also_at_the_beginning() -> None:
    assert TREE.versions_of(3) == TREE.versions_of(5) == [3, 5]
    assert TREE.versions_of(1) == TREE.versions_of(10) == [1, 10]


def test_an_answer_and_the_same_one_gone_on_with_are_two_versions() -> None:
    for end in (2, 7, 9):
        assert TREE.versions_of(end) == [2, 7, 9]


def test_a_chain_is_one_version_by_its_end() -> None:
    assert TREE.versions_of(13) == [13]
    beside = Tree([*NODES, Node(14, 12, "assistant")])
    assert beside.versions_of(13) == beside.versions_of(14) == [13, 14]


def test_a_branch_ends_with_what_was_written_last() -> None:
    assert TREE.leaf_below(1) == 8, "by way of the last answer, 7"
    assert TREE.leaf_below(10) == 13
    assert TREE.leaf_below(3) == 4


def test_what_was_said_after_an_answer_goes_before_what_goes_on_with_it() -> None:
    assert TREE.leaf_below(2) == 6
    assert TREE.leaf_below(9) == 9


def test_every_version_can_be_chosen_and_is_then_on_the_path() -> None:
    parents = {node.pk: node.parent_id for node in NODES}
    for node in NODES:
        for version in TREE.versions_of(node.pk) if node.pk not in (11, 12) else ():
            leaf: int | None = TREE.leaf_below(version)
            path = set()
            while leaf is not None:
                path.add(leaf)
                leaf = parents[leaf]
            assert version in path
