from django.db import migrations, models

import chatapp.chain

# What migration 0001 left open, and the same for seals. PostgreSQL: the function is 0001's.
SQLITE = {
    "audit_is_never_removed": """
        CREATE TRIGGER audit_is_never_removed BEFORE DELETE ON chatapp_auditevent
        BEGIN SELECT RAISE(ABORT, 'audit entries are never removed'); END
    """,
    "seals_are_never_changed": """
        CREATE TRIGGER seals_are_never_changed BEFORE UPDATE ON chatapp_auditseal
        BEGIN SELECT RAISE(ABORT, 'seals of the audit trail are never changed'); END
    """,
    "seals_are_never_removed": """
        CREATE TRIGGER seals_are_never_removed BEFORE DELETE ON chatapp_auditseal
        BEGIN SELECT RAISE(ABORT, 'seals of the audit trail are never removed'); END
    """,
}
POSTGRESQL = {
    "audit_is_never_emptied ON chatapp_auditevent": """
        CREATE TRIGGER audit_is_never_emptied BEFORE TRUNCATE ON chatapp_auditevent
        FOR EACH STATEMENT EXECUTE FUNCTION audit_is_append_only()
    """,
    "seals_are_append_only ON chatapp_auditseal": """
        CREATE TRIGGER seals_are_append_only BEFORE UPDATE OR DELETE ON chatapp_auditseal
        FOR EACH ROW EXECUTE FUNCTION audit_is_append_only()
    """,
    "seals_are_never_emptied ON chatapp_auditseal": """
        CREATE TRIGGER seals_are_never_emptied BEFORE TRUNCATE ON chatapp_auditseal
        FOR EACH STATEMENT EXECUTE FUNCTION audit_is_append_only()
    """,
}
TRIGGERS = {"sqlite": SQLITE, "postgresql": POSTGRESQL}


def make_triggers(apps, schema_editor):
    for statement in TRIGGERS.get(schema_editor.connection.vendor, {}).values():
        schema_editor.execute(statement)


def undo_triggers(apps, schema_editor):
    for name in TRIGGERS.get(schema_editor.connection.vendor, {}):
        schema_editor.execute(f"DROP TRIGGER {name}")


class Migration(migrations.Migration):
    dependencies = [
        ("chatapp", "0016_groups"),
    ]

    operations = [
        migrations.CreateModel(
            name="AuditHead",
            fields=[
                (
                    "id",
                    models.PositiveSmallIntegerField(default=1, primary_key=True, serialize=False),
                ),
                ("number", models.BigIntegerField(default=0)),
                ("position", models.BigIntegerField(default=0)),
                ("link", models.BinaryField(default=chatapp.chain.BEGINNING)),
                ("entry_id", models.BigIntegerField(default=0)),
                ("missing", models.JSONField(default=list)),
                ("sealed_us", models.BigIntegerField(default=0)),
            ],
        ),
        migrations.CreateModel(
            name="AuditSeal",
            fields=[
                ("number", models.BigIntegerField(primary_key=True, serialize=False)),
                ("first", models.BigIntegerField()),
                ("sealed_us", models.BigIntegerField()),
                ("lowest_id", models.BigIntegerField()),
                ("highest_id", models.BigIntegerField()),
                ("entry_ids", models.BinaryField()),
                ("links", models.BinaryField()),
            ],
            options={
                "ordering": ("number",),
                "indexes": [models.Index(fields=["highest_id"], name="seal_by_entry")],
            },
        ),
        migrations.RunPython(make_triggers, undo_triggers),
    ]
