"""One subscription per process, and where each followed log stands."""

from __future__ import annotations

from relay.hub.forever import forever
from relay.hub.hub import Hub, Visit
from relay.hub.watch import Viewer, Watch, frame, is_ended

__all__ = ["Hub", "Viewer", "Visit", "Watch", "forever", "frame", "is_ended"]
