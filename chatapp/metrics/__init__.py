"""Metrics of this process, for Prometheus."""

from __future__ import annotations

from chatapp.metrics.door import Listener, may_read
from chatapp.metrics.exposition import WORKER_SEEN_S, exposition
from chatapp.metrics.series import SERIES

__all__ = ["SERIES", "WORKER_SEEN_S", "Listener", "exposition", "may_read"]
