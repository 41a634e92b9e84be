"""`python -m tests.process.chaos.dump`: records and audit entries as JSON, from any database."""

from __future__ import annotations

import json
import os

import django
from django.core.serializers.json import DjangoJSONEncoder


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "chatapp.settings")
    django.setup()
    from chatapp.models import AuditEvent, Response

    columns = (
        *("id", "status", "reason", "fold", "fold_seq", "fold_epoch", "created_at", "ended_at"),
    )
    rows = {
        "responses": list(Response.objects.values(*columns)),
        "audit": list(AuditEvent.objects.values("response_id", "action", "status", "detail")),
    }
    print(json.dumps(rows, cls=DjangoJSONEncoder))


main()
