#!/usr/bin/env python3
"""Django's command line for Unbroken; `manage.py dev` starts everything."""

from __future__ import annotations

import os
import sys


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "chatapp.settings")
    try:
        from django.core.management import execute_from_command_line
    except ImportError:
        sys.exit(
            "Django is not installed for this Python. Run `make setup`, then .venv/bin/python."
        )
    execute_from_command_line(sys.argv)


if __name__ == "__main__":
    main()
