"""The project's settings, made fast and private for tests."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from chatapp.settings import *  # noqa: F403
from chatapp.settings import DATABASES

if DATABASES["default"]["ENGINE"].endswith("sqlite3"):
    # A file, not memory: async tests reach the database from several threads, and two test runs in
    # one checkout must not share one.
    DATABASES["default"]["TEST"] = {
        "NAME": str(Path(tempfile.gettempdir()) / f"unbroken-test-{os.getpid()}.sqlite3")
    }

# The real hasher takes 0.2 s on purpose; tests log in hundreds of times.
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]

ALLOWED_HOSTS = ["*"]

# Attempts to sign in are counted by each test run for itself.
CACHES = {"default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}}
