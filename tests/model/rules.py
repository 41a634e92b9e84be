"""The rules of relay/PROTOCOL.md that the model can do without, one switch each.

A switch that is off takes away exactly the sentence it cites, and some schedule must then break a
law: a rule without which nothing breaks is not needed, or the model does not see why it is.
Some rules cover for each other, so few schedules need one of them alone: both halves of 11.7 (who
made a record final settles it later; whoever finds one settles it), and 7.5 and 7.6 (who comes
before the log is noted; a log that is made again waits for anybody). The last two share a switch:
7.5 alone is needed by seed 150604, 7.6 alone by none of 1,660,000.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import Any


def rule(section: str, sentence: str, *, script: bool = False) -> Any:
    """A switch. `section` is where PROTOCOL states it; `script`: a script of the store keeps it."""
    return field(default=True, metadata={"section": section, "says": sentence, "script": script})


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    create_once: bool = rule("1", "create leaves a log that is there alone", script=True)
    ordered_epochs: bool = rule("2.1", "a claim's epoch is at least the time", script=True)
    busy: bool = rule("2.2", "no claim while a lease lies ahead", script=True)
    fence: bool = rule("2.3", "a write of an older epoch is refused", script=True)
    deadline: bool = rule("2.3", "a write after its lease is refused", script=True)
    no_second_run: bool = rule("2.5", "nothing runs again once there is content", script=True)
    compare: bool = rule("3.2", "events that are present are skipped", script=True)
    gap: bool = rule("3.2", "a write that leaves a hole is sent back", script=True)
    cursor_epoch: bool = rule("4.1", "a cursor of another epoch is answered with a snapshot")
    header_wins: bool = rule("4.3", "Last-Event-ID wins over ?after=")
    message_epoch: bool = rule("5.2", "a message of another epoch makes the hub read the log")
    look_at_tails: bool = rule("5.3", "the hub looks at the tails of the logs it follows")
    wish_is_kept: bool = rule("6.1", "the sweep sends a wish to stop again")
    honest_cancel: bool = rule("6.4", "a taker that finds `started` never writes `cancelled`")
    creator_counts: bool = rule("7.2", "create counts the creator as a viewer", script=True)
    late_heartbeat: bool = rule("7.2", "a heartbeat brings nobody back who left", script=True)
    lost_presence: bool = rule("7.2", "a heartbeat brings back who was lost", script=True)
    silent_disconnect: bool = rule("7.2", "a disconnect writes nothing")
    left_mark: bool = rule("7.3", "a leave counts for leave_after_s", script=True)
    judged_by_renew: bool = rule("7.4", "renew says when nobody is left", script=True)
    judged_by_claim: bool = rule("7.4", "nothing is run for nobody", script=True)
    judged_by_sweep: bool = rule("7.4", "the sweep ends what is queued for nobody", script=True)
    early_presence: bool = rule("7.5", "who watches while there is no log counts", script=True)
    record_wins: bool = rule("8.1", "a claimant asks the record first")
    one_record: bool = rule("8.2", "finalize writes nothing over a final record")
    ack_closed: bool = rule("8.3", "ack leaves an open log its job", script=True)
    restore: bool = rule("10.1", "a writer restores the log that the store lost", script=True)
    restored_presence: bool = rule("10.1", "a restored log waits for its viewers", script=True)
    grace: bool = rule("10.3", "for a lease after a fail-over nothing is claimed", script=True)
    presence_grace: bool = rule("10.7", "for two heartbeats nobody is missed", script=True)
    one_id: bool = rule("11.2", "parallel posts of one key make one response")
    reserve_by_response: bool = rule("11.4", "a response is reserved once", script=True)
    lapse: bool = rule("11.4", "a reservation without a response lapses", script=True)
    settled_stays: bool = rule("11.4", "what was settled is not reserved again", script=True)
    settle_once: bool = rule("11.5", "a response is counted once", script=True)
    settle_lapsed: bool = rule("11.5", "settle counts also what has lapsed", script=True)
    settle_before_ack: bool = rule("11.4", "settle comes before the ack")
    unknown_holds: bool = rule("11.4", "whose outcome is unknown, that reservation stays")
    refill: bool = rule("11.6", "missing counters are made anew from the records", script=True)
    refill_after_loss: bool = rule("11.6", "what was whole before is missing", script=True)
    refill_names_run: bool = rule("11.6", "a refill is of the run in which records were read")
    settled_later: bool = rule("11.7", "what was recorded and not settled is settled later")
    settled_by_finder: bool = rule("11.7", "a worker that finds a final record settles it")
    refill_marks: bool = rule("11.5", "a refill adds only what is missing", script=True)

    def without(self, name: str) -> Rules:
        """The same rules but one. Raises ValueError for a name that is none."""
        if name not in NAMES:
            raise ValueError(f"no rule is named {name!r}; there are: {', '.join(NAMES)}")
        return replace(self, **{name: False})


ALL = Rules()
NAMES = tuple(f.name for f in fields(Rules))
SECTIONS = {f.name: str(f.metadata["section"]) for f in fields(Rules)}
SAYS = {f.name: str(f.metadata["says"]) for f in fields(Rules)}
BY_SCRIPT = frozenset(f.name for f in fields(Rules) if f.metadata["script"])
