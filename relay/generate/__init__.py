"""One generation: from an opened upstream to exactly one end in the log, and what the record
gets."""

from __future__ import annotations

from relay.generate.commit import Committer
from relay.generate.end import End, ended
from relay.generate.holder import Holder, take_over
from relay.generate.outcome import Outcome, Record, Records, conclude
from relay.generate.run import Generation
from relay.generate.story import Story
from relay.generate.writer import Writer

__all__ = [
    "Committer",
    "End",
    "Generation",
    "Holder",
    "Outcome",
    "Record",
    "Records",
    "Story",
    "Writer",
    "conclude",
    "ended",
    "take_over",
]
