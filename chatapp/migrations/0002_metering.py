from django.db import migrations, models
from django.db.models import F

FINAL = ("completed", "incomplete", "failed", "cancelled", "interrupted")


def answered_by_whom_was_asked(apps, schema_editor):
    """Before this there were no fallbacks."""
    rows = apps.get_model("chatapp", "Response").objects.using(schema_editor.connection.alias)
    rows.filter(status__in=FINAL, started_at__isnull=False).update(answered_by=F("model"))


class Migration(migrations.Migration):
    dependencies = [("chatapp", "0001_initial")]

    operations = [
        migrations.AddField(
            model_name="response",
            name="answered_by",
            field=models.CharField(blank=True, max_length=200),
        ),
        migrations.AddField(
            model_name="response",
            name="cost",
            field=models.DecimalField(blank=True, decimal_places=10, max_digits=20, null=True),
        ),
        migrations.RunPython(answered_by_whom_was_asked, migrations.RunPython.noop, elidable=True),
    ]
