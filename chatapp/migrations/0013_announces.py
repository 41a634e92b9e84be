from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("chatapp", "0012_chat_changed")]

    operations = [
        migrations.AddField(
            model_name="user",
            name="announces",
            field=models.CharField(
                blank=True,
                choices=[("whole", "Whole"), ("sentences", "Sentences"), ("silent", "Silent")],
                max_length=9,
            ),
        ),
    ]
