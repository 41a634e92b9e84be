from functools import reduce
from operator import or_

from django.db import migrations
from django.db.models import Q

MARKS = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"


def undirect(apps, schema_editor):
    """Titles are kept without marks that turn the direction of reading (chatapp/named.py)."""
    chats = apps.get_model("chatapp", "Chat").objects
    marked = chats.filter(reduce(or_, (Q(title__contains=mark) for mark in MARKS)))
    for pk, title in list(marked.values_list("pk", "title")):
        bare = title.translate(dict.fromkeys(map(ord, MARKS)))
        chats.filter(pk=pk, title=title).update(title=bare.strip() or "…")


class Migration(migrations.Migration):
    dependencies = [
        ("chatapp", "0024_never_replaced"),
    ]

    operations = [
        migrations.RunPython(undirect, migrations.RunPython.noop),
    ]
