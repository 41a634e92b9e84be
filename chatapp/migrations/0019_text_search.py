"""The index by which words of texts are found on PostgreSQL; elsewhere LIKE does it.

Beside running writers, so not in a transaction. The expression is that of services/searching.py.
"""

from importlib import import_module

from django.db import migrations

NAME = "message_words"
MAKE = (
    f"CREATE INDEX CONCURRENTLY IF NOT EXISTS {NAME} ON chatapp_message "
    "USING gin (to_tsvector('simple', left(text, 100000)))"
)


def make(apps, schema_editor):
    if schema_editor.connection.vendor == "postgresql":
        schema_editor.execute(MAKE)


def drop(apps, schema_editor):
    if schema_editor.connection.vendor == "postgresql":
        schema_editor.execute(f"DROP INDEX CONCURRENTLY IF EXISTS {NAME}")


def groups(apps, schema_editor):
    """Flags are of those who act: support and admin."""
    import_module("chatapp.migrations.0016_groups").make_groups(apps, schema_editor)


class Migration(migrations.Migration):
    atomic = False

    dependencies = [("chatapp", "0018_lists")]

    operations = [
        migrations.RunPython(make, drop),
        migrations.RunPython(groups, migrations.RunPython.noop),
    ]
