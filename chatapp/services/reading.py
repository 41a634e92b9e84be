"""Reading: what a response is right now, from its record, its log, or what was asked."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

import relay
from chatapp import runtime
from chatapp.services.ends import asked
from relay import Snapshot, Status, fold_log

if TYPE_CHECKING:
    from chatapp.models import Response


async def snapshot(response: Response) -> Snapshot:
    """The state that a viewer may start from: its `seq` and `epoch` are a valid cursor.

    A final row answers by itself; else the log does; a row without a log is still queued.
    Raises StoreUnavailable.
    """
    if response.is_final:
        return recorded(response)
    folded = await fold_log(runtime.store(), response.pk)
    if folded is not None:
        return folded[0]
    # No log: not made yet, or retired since this row was read.
    await response.arefresh_from_db()
    return recorded(response)


def recorded(response: Response) -> Snapshot:
    """What the row alone says."""
    if response.fold:
        return Snapshot.from_json(response.fold)
    bare = relay.fold([asked(response)])
    if not response.is_final:
        return bare
    # Its content was removed with its chat; how it ended stays known.
    status, reason = Status(response.status), response.reason or None
    return msgspec.structs.replace(bare, status=status, reason=reason)
