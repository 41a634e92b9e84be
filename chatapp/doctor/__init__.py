"""Which hop between a viewer and this server holds streams back, packs or cuts them.

`plan` says what is sent, `observed` what arrived, `arrivals` and `judge` what that means in plain
words, with the line of a proxy's configuration that mends it; none of these does any I/O. `probe`
asks a server, and `tickets` says who may.
"""

from __future__ import annotations

from chatapp.doctor.judge import Finding, Level, judge
from chatapp.doctor.observed import Path, Report
from chatapp.doctor.plan import BadPlan, Plan
from chatapp.doctor.tickets import TicketRefused, make_ticket, read_ticket

__all__ = [
    "BadPlan",
    "Finding",
    "Level",
    "Path",
    "Plan",
    "Report",
    "TicketRefused",
    "judge",
    "make_ticket",
    "read_ticket",
]
