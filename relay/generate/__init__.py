"""One generation: from an opened upstream to exactly one end in the log, and what the record
gets."""

from __future__ import annotations

from relay.generate.commit import Committer, Writer
from relay.generate.end import End, ended
from relay.generate.outcome import Outcome, Record, Records, conclude
from relay.generate.run import Generation

__all__ = [
    "Committer",
    "End",
    "Generation",
    "Outcome",
    "Record",
    "Records",
    "Writer",
    "conclude",
    "ended",
]
