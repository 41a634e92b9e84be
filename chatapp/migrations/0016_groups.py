"""Three groups for the staff. An operator may change them; what they are called is only a start."""

from django.contrib.auth.management import create_permissions
from django.db import migrations

LOOK = [
    "view_response",
    "view_auditevent",
    "view_chat",
    "view_message",
    "view_user",
    "view_plan",
    "view_apikey",
]
GROUPS = {
    "auditor": [*LOOK, "read_text"],
    "support": [*LOOK, "show_text", "stop_response", "flag_response"],
    "admin": [
        *LOOK,
        *("read_text", "stop_response", "flag_response", "steer_models", "change_apikey"),
        *("add_user", "change_user", "add_plan", "change_plan", "delete_plan"),
    ],
}


def make_groups(apps, schema_editor):
    """Safe to repeat. Permissions are made by Django after all migrations, which is too late."""
    config = apps.get_app_config("chatapp")
    had, config.models_module = getattr(config, "models_module", None), True
    create_permissions(config, apps=apps, verbosity=0)
    config.models_module = had
    permission = apps.get_model("auth", "Permission")
    group = apps.get_model("auth", "Group")
    for name, codenames in GROUPS.items():
        made, _ = group.objects.get_or_create(name=name)
        found = permission.objects.filter(content_type__app_label="chatapp", codename__in=codenames)
        made.permissions.add(*found)


class Migration(migrations.Migration):
    dependencies = [
        ("chatapp", "0015_story"),
        ("auth", "0012_alter_user_first_name_max_length"),
        ("contenttypes", "0002_remove_content_type_name"),
    ]

    operations = [migrations.RunPython(make_groups, migrations.RunPython.noop)]
