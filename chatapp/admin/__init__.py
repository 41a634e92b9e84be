"""Django admin: who asked what of whom, and how the models do. Nothing is edited there."""

from __future__ import annotations

from chatapp.admin.records import page_of

__all__ = ["page_of"]
