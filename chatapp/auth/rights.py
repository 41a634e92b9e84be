"""Who was given or lost which right, for the trail: by signals, so that admin, a shell and commands
are seen alike.

Not seen: what asks the database past the models (`QuerySet.update`, SQL).
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any, Final

from django.contrib.auth.models import Group
from django.db.models.signals import m2m_changed, post_save, pre_delete, pre_save

from chatapp import audit
from chatapp.acting import actor
from chatapp.models import User

FLAGS: Final = ("is_active", "is_staff", "is_superuser")
SEEN: Final = {"post_add": "given", "pre_remove": "taken", "pre_clear": "taken"}
"""Before something is taken the rows still say what it was."""
_MEMBERS: Final[Any] = User.groups.through
_OWN: Final[Any] = User.user_permissions.through
_OF_GROUPS: Final[Any] = Group.permissions.through


def keep_trail() -> None:
    """Call once, when all apps are there."""
    for through in (_MEMBERS, _OWN, _OF_GROUPS):
        m2m_changed.connect(_noted, sender=through, dispatch_uid=f"rights {through.__name__}")
    pre_save.connect(_before, sender=User, dispatch_uid="rights before")
    post_save.connect(_after, sender=User, dispatch_uid="rights after")
    pre_save.connect(_renamed, sender=Group, dispatch_uid="rights group renamed")
    pre_delete.connect(_removed, sender=Group, dispatch_uid="rights group removed")


def _noted(
    sender: Any, instance: Any, action: str, reverse: bool, pk_set: set[int] | None, **_: Any
) -> None:
    if action not in SEEN:
        return
    # Each row joins a holder (a person, or a group) to a right that it has (a group, a permission).
    holder = "group" if sender is _OF_GROUPS else "user"
    right = "group" if sender is _MEMBERS else "permission"
    near, far = (right, holder) if reverse else (holder, right)
    rows = sender.objects.filter(**{f"{near}_id": instance.pk})
    if pk_set is not None:
        rows = rows.filter(**{f"{far}_id__in": pk_set})
    changed: defaultdict[Any, list[str]] = defaultdict(list)
    for row in rows.order_by("pk").select_related(holder, right):
        changed[getattr(row, holder)].append(_name(getattr(row, right)))
    for who, rights in changed.items():
        change = {SEEN[action]: sorted(rights)}
        if holder == "group":
            audit.group_changed(who.name, actor=actor(), change=change)
        else:
            audit.rights_changed(who.username, actor=actor(), change=change)


def _name(right: Any) -> str:
    if isinstance(right, Group):
        return f"group {right.name}"
    app_label, codename = right.content_type.app_label, right.codename
    return f"{app_label}.{codename}"


def _before(sender: Any, instance: Any, raw: bool, update_fields: Any, **_: Any) -> None:
    instance.flags_before = None
    if raw or (update_fields is not None and set(FLAGS).isdisjoint(update_fields)):
        return
    rows = User.objects.filter(pk=instance.pk).values(*FLAGS)
    # Who signs up gets no right by it.
    instance.flags_before = rows.first() or {"is_active": instance.is_active}


def _after(sender: Any, instance: Any, update_fields: Any, **_: Any) -> None:
    before = instance.flags_before
    if before is None:
        return
    written = FLAGS if update_fields is None else [name for name in FLAGS if name in update_fields]
    given = [name for name in written if getattr(instance, name) and not before.get(name)]
    taken = [name for name in written if before.get(name) and not getattr(instance, name)]
    change = {word: names for word, names in (("given", given), ("taken", taken)) if names}
    if change:
        audit.rights_changed(instance.username, actor=actor(), change=change)


def _renamed(sender: Any, instance: Group, raw: bool, **_: Any) -> None:
    before = None if raw else Group.objects.filter(pk=instance.pk).first()
    if before is not None and before.name != instance.name:
        audit.group_changed(before.name, actor=actor(), change={"now": instance.name})


def _removed(sender: Any, instance: Group, **_: Any) -> None:
    """With it go its rows in all tables, of which no other signal tells."""
    taken = [_name(one) for one in instance.permissions.select_related("content_type")]
    audit.group_changed(instance.name, actor=actor(), change={"removed": True, "taken": taken})
    for row in _MEMBERS.objects.filter(group_id=instance.pk).select_related("user"):
        change = {"taken": [_name(instance)]}
        audit.rights_changed(row.user.username, actor=actor(), change=change)
