"""What a page shows of a chat's tree: versions of a turn, and an answer that went on as one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from chatapp.services.tree import Tree
    from relay import Snapshot


@dataclass(frozen=True, slots=True)
class Versions:
    """Where a turn stands among its versions."""

    number: int = 1
    """1, 2, 3 … in the order of writing."""
    count: int = 1
    previous: int | None = None
    """Id of the message to choose; None: this is the first."""
    next: int | None = None

    @classmethod
    def of(cls, tree: Tree, message_id: int) -> Versions:
        ids = tree.versions_of(message_id)
        if message_id not in ids:  # a page that ends in the middle of an answer of several parts
            return cls()
        at = ids.index(message_id)
        return cls(
            number=at + 1,
            count=len(ids),
            previous=ids[at - 1] if at else None,
            next=ids[at + 1] if at + 1 < len(ids) else None,
        )


def joined(earlier: Snapshot, later: Snapshot) -> Snapshot:
    """An answer and what went on with it, as a person sees them: how it ended, the later one says.

    The texts meet as they are: a continuation's log holds what is new alone (PROTOCOL 14).
    """
    return msgspec.structs.replace(
        later,
        text=earlier.text + later.text,
        reasoning="\n\n".join(part for part in (earlier.reasoning, later.reasoning) if part),
    )
