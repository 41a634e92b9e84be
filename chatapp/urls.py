"""Every address, but for event streams: those are answered before Django (chatapp/asgi.py)."""

from __future__ import annotations

urlpatterns = []
