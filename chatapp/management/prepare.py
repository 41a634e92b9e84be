"""What must be true of the database before the web server starts, in a process of its own.

    python -m chatapp.management.prepare    (the demo user's password on standard input)

A process of its own because `manage.py dev` has read its settings before it knows which database
it will use. Safe to repeat. Lines on standard output that begin with NOTE are for the person.
"""

from __future__ import annotations

import sys

import django
from django.core.management import call_command

DEMO_USER = "demo"
NOTE = "NOTE "


def prepare_demo_user(password: str) -> str | None:
    """Make the demo user, or put its password back; returns a sentence if that was needed."""
    from django.contrib.auth import get_user_model

    user, created = get_user_model().objects.get_or_create(
        username=DEMO_USER, defaults={"is_staff": True, "is_superuser": True}
    )
    # Setting it again would log the person out, so only when it differs.
    if not created and user.check_password(password):
        return None
    user.set_password(password)
    user.save(update_fields=["password"])
    if created:
        return None
    return f"The password of {DEMO_USER} had been changed; it is the printed one again."


def main() -> None:
    password = sys.stdin.readline().strip()
    django.setup()
    call_command("check")
    call_command("migrate", interactive=False)
    if note := prepare_demo_user(password):
        sys.stdout.write(f"{NOTE}{note}\n")


if __name__ == "__main__":
    main()
