import django.core.validators
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("chatapp", "0019_text_search"),
    ]

    operations = [
        migrations.AlterModelOptions(name="audithead", options={"default_permissions": ()}),
        migrations.AlterModelOptions(
            name="auditseal", options={"default_permissions": (), "ordering": ("number",)}
        ),
        migrations.AddField(
            model_name="plan",
            name="text_retention_days",
            field=models.PositiveIntegerField(
                blank=True,
                null=True,
                validators=[django.core.validators.MinValueValidator(1)],
                verbose_name="days for which text is kept",
            ),
        ),
        migrations.AddIndex(
            model_name="response",
            index=models.Index(
                condition=models.Q(("erased_at", None)),
                fields=["ended_at"],
                name="response_with_text",
            ),
        ),
    ]
