import django.db.models.deletion
from django.db import migrations, models

BATCH = 500


def hang_messages_up(apps, schema_editor):
    """What was a list becomes a tree: each message hangs below the one before it, and an answer
    that was tried again is a version beside the later try, under the same question."""
    chats = apps.get_model("chatapp", "Chat").objects
    messages = apps.get_model("chatapp", "Message").objects
    rows = messages.order_by("chat_id", "position").select_related("response")
    chat_id, before, parents, changed = None, None, {}, []
    for message in rows.only("chat_id", "position", "response__retry_of").iterator(BATCH):
        if message.chat_id != chat_id:
            _show(chats, chat_id, before)
            chat_id, before, parents = message.chat_id, None, {}
        response = message.response
        tried = parents.get(response.retry_of_id) if response else None
        message.parent_id = tried or before
        if response:
            parents[response.pk] = message.parent_id
        before = message.pk
        changed.append(message)
        if len(changed) == BATCH:
            messages.bulk_update(changed, ["parent"])
            changed = []
    messages.bulk_update(changed, ["parent"])
    _show(chats, chat_id, before)
    if schema_editor.connection.vendor == "postgresql":
        # Rows whose foreign keys are still to be checked would forbid the constraints that follow.
        schema_editor.execute("SET CONSTRAINTS ALL IMMEDIATE")


def _show(chats, chat_id, message_id):
    if chat_id is not None:
        chats.filter(pk=chat_id).update(current_id=message_id)


class Migration(migrations.Migration):
    dependencies = [("chatapp", "0006_chat_list")]

    operations = [
        migrations.AddField(
            model_name="chat",
            name="current",
            field=models.ForeignKey(
                blank=True,
                editable=False,
                null=True,
                on_delete=django.db.models.deletion.SET_NULL,
                related_name="+",
                to="chatapp.message",
            ),
        ),
        migrations.AddField(
            model_name="message",
            name="parent",
            field=models.ForeignKey(
                blank=True,
                null=True,
                on_delete=django.db.models.deletion.CASCADE,
                related_name="children",
                to="chatapp.message",
            ),
        ),
        migrations.RunPython(hang_messages_up, migrations.RunPython.noop, elidable=True),
        migrations.AddConstraint(
            model_name="message",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("role", "assistant"), _negated=True),
                    ("parent__isnull", False),
                    _connector="OR",
                ),
                name="message_answer_has_question",
            ),
        ),
        migrations.AddConstraint(
            model_name="message",
            constraint=models.CheckConstraint(
                condition=models.Q(("parent", models.F("id")), _negated=True),
                name="message_not_its_own_parent",
            ),
        ),
    ]
