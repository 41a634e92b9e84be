"""What a migration may do while the version before it still runs (deploy/OPERATIONS.md, Upgrades).

A deploy migrates first and replaces processes afterwards. So the old code must go on reading and
writing on the new tables: nothing it uses may vanish, and nothing it does not know of may be asked
of it. A migration that takes something away says in `CONTRACTS` which version stopped using it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest
from django.db import models
from django.db.migrations import operations
from django.db.migrations.loader import MigrationLoader
from django.db.models import NOT_PROVIDED

if TYPE_CHECKING:
    from collections.abc import Iterator

BEFORE_THE_RULE: Final = 20
"""Nobody has deployed a version between these."""
ADDS: Final = (
    operations.CreateModel,
    operations.AddIndex,
    operations.AlterModelOptions,
    operations.AlterModelManagers,
    operations.RunPython,
    operations.RunSQL,
)


def refused(operation: Any, made: frozenset[str] = frozenset()) -> str:
    """Why the old code would trip over it; "" if it would not. It knows no table that is `made` by
    the same migration, whatever befalls that."""
    if isinstance(operation, operations.SeparateDatabaseAndState):
        found = [refused(one, made) for one in operation.database_operations]
        return "; ".join(filter(None, found))
    if isinstance(operation, ADDS) or getattr(operation, "model_name", "").lower() in made:
        return ""
    if isinstance(operation, operations.AddField):
        field = operation.field
        if field.null or field.db_default is not NOT_PROVIDED or field.many_to_many:
            return ""
        return f"old code inserts rows without {operation.name}: give it null=True or a db_default"
    return f"{type(operation).__name__} takes something away or asks for something new"


def reasons_of(migration: Any) -> list[str]:
    made = frozenset(
        one.name.lower() for one in migration.operations if isinstance(one, operations.CreateModel)
    )
    return list(filter(None, (refused(one, made) for one in migration.operations)))


def later() -> Iterator[tuple[str, Any]]:
    for (app, name), migration in sorted(MigrationLoader(None).disk_migrations.items()):
        if app == "chatapp" and int(name[:4]) > BEFORE_THE_RULE:
            yield name, migration


def test_migrations_leave_the_version_before_them_running() -> None:
    wrong = {
        name: reasons
        for name, migration in later()
        if not getattr(migration, "CONTRACTS", "") and (reasons := reasons_of(migration))
    }
    assert wrong == {}, "deploy/OPERATIONS.md, Upgrades, says how to do it in two releases"


@pytest.mark.parametrize(
    ("operation", "is_refused"),
    [
        (operations.AddField("chat", "x", models.TextField(null=True)), False),
        (operations.AddField("chat", "x", models.TextField(db_default="")), False),
        (operations.AddField("chat", "x", models.TextField(default="")), True),
        (operations.RemoveField("chat", "title"), True),
        (operations.RenameField("chat", "title", "name"), True),
        (operations.DeleteModel("Chat"), True),
        (operations.AlterField("chat", "title", models.TextField()), True),
        (operations.CreateModel("Thing", [("id", models.AutoField(primary_key=True))]), False),
    ],
    ids=lambda value: value.describe() if hasattr(value, "describe") else str(value),
)
def test_what_old_code_would_trip_over_is_refused(operation: Any, is_refused: bool) -> None:
    assert bool(refused(operation)) is is_refused
