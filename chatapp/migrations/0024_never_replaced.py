from django.db import migrations

# SQLite's `INSERT OR REPLACE` removes the old row without firing what refuses a DELETE.
SQLITE = {
    "audit_is_never_replaced": """
        CREATE TRIGGER audit_is_never_replaced BEFORE INSERT ON chatapp_auditevent
        WHEN EXISTS (SELECT 1 FROM chatapp_auditevent WHERE id = NEW.id)
        BEGIN SELECT RAISE(ABORT, 'audit entries are never replaced'); END
    """,
    "seals_are_never_replaced": """
        CREATE TRIGGER seals_are_never_replaced BEFORE INSERT ON chatapp_auditseal
        WHEN EXISTS (SELECT 1 FROM chatapp_auditseal WHERE number = NEW.number)
        BEGIN SELECT RAISE(ABORT, 'seals of the audit trail are never replaced'); END
    """,
}


def make_triggers(apps, schema_editor):
    if schema_editor.connection.vendor == "sqlite":
        for statement in SQLITE.values():
            schema_editor.execute(statement)


def undo_triggers(apps, schema_editor):
    if schema_editor.connection.vendor == "sqlite":
        for name in SQLITE:
            schema_editor.execute(f"DROP TRIGGER {name}")


class Migration(migrations.Migration):
    dependencies = [
        ("chatapp", "0023_drains"),
    ]

    operations = [
        migrations.RunPython(make_triggers, undo_triggers),
    ]
