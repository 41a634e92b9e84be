"""The ASGI application: event streams beside Django, and the background work of this process."""

from __future__ import annotations

import os

import django
from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "chatapp.settings")
django.setup()

application = get_asgi_application()
