"""Reading recorded answers again, with the code that serves real ones: `python -m relay.replay`.

A stream that went wrong becomes a file, the file says what we make of it, and with `--save` it
becomes a fixture.
"""

from __future__ import annotations

from relay.replay.play import Played, play
from relay.replay.result import result_of

__all__ = ["Played", "play", "result_of"]
