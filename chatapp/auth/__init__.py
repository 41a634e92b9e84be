"""Who is asking, and whether they still may while a stream is open (law 15)."""

from __future__ import annotations

from chatapp.auth.identify import (
    PRINCIPAL,
    CsrfRefused,
    Principal,
    api_auth,
    by_key,
    by_session,
    identify,
    make_key,
)
from chatapp.auth.live import LiveCredentials

__all__ = [
    "PRINCIPAL",
    "CsrfRefused",
    "LiveCredentials",
    "Principal",
    "api_auth",
    "by_key",
    "by_session",
    "identify",
    "make_key",
]
