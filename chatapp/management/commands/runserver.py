"""`manage.py runserver` under Daphne: Django's own development server speaks no ASGI.

Daphne is no installed app, because it would bring Twisted into every process of the project.
"""

from __future__ import annotations

from daphne.management.commands.runserver import Command

__all__ = ["Command"]
