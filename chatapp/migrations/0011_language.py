from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("chatapp", "0010_message_html")]

    operations = [
        migrations.AddField(
            model_name="user",
            name="language",
            field=models.CharField(
                blank=True,
                choices=[("en", "English"), ("de", "Deutsch"), ("ar", "العربية")],
                max_length=8,
            ),
        ),
    ]
