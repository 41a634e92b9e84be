"""The audit trail: append-only, and sealed by a hash chain (chatapp/chain.py)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeVar

from django.db import models
from django.db.models import Q

from chatapp.chain import BEGINNING, Head, Seal, unpack_ids

if TYPE_CHECKING:
    from collections.abc import Iterable

Row = TypeVar("Row", bound=models.Model)


class AppendOnly(Exception):
    """Entries of the trail and their seals are never changed or removed."""


class AppendOnlyQuerySet(models.QuerySet[Row], Generic[Row]):
    def update(self, **kwargs: Any) -> NoReturn:
        raise AppendOnly("what is in the trail is never changed")

    def delete(self) -> NoReturn:
        raise AppendOnly("what is in the trail is never removed")

    def bulk_update(self, objs: Any, fields: Iterable[str], batch_size: Any = None) -> NoReturn:
        raise AppendOnly("what is in the trail is never changed")


class AppendOnlyRow(models.Model):
    """Database triggers refuse what does not come through here (migrations 0001 and 0017)."""

    class Meta:
        abstract = True

    def save(self, *args: Any, **kwargs: Any) -> None:
        if not self._state.adding:
            raise AppendOnly("what is in the trail is never changed")
        super().save(*args, **kwargs)

    def delete(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise AppendOnly("what is in the trail is never removed")


class AuditQuerySet(AppendOnlyQuerySet["AuditEvent"]):
    pass


class AuditEvent(AppendOnlyRow):
    """Who did what to which response, without its content. Names are copied: it outlives them."""

    at = models.DateTimeField()
    actor = models.CharField(max_length=150)
    """User name; empty for the system itself."""
    action = models.CharField(max_length=32)
    response_id = models.CharField(max_length=48, blank=True)
    username = models.CharField(max_length=150, blank=True)
    """Whose response it is."""
    model = models.CharField(max_length=200, blank=True)
    status = models.CharField(max_length=16, blank=True)
    detail = models.JSONField(default=dict)

    objects = AuditQuerySet.as_manager()

    class Meta:
        ordering = ("-at", "-id")
        indexes = (
            models.Index(fields=("-at",), name="audit_by_date"),
            models.Index(fields=("response_id",), name="audit_of_response"),
            models.Index(fields=("username", "-at"), name="audit_of_user"),
            models.Index(fields=("status", "-at"), name="audit_by_status"),
            models.Index(fields=("action", "-at"), name="audit_by_action"),
            models.Index(fields=("actor", "-at"), condition=~Q(actor=""), name="audit_by_actor"),
        )

    def __str__(self) -> str:
        return f"{self.action} {self.response_id}"


class SealQuerySet(AppendOnlyQuerySet["AuditSeal"]):
    def holding(self, entry_id: int) -> AuditSeal | None:
        """The seal that an entry is in; None while it waits for one."""
        near = self.filter(lowest_id__lte=entry_id, highest_id__gte=entry_id)
        return next((row for row in near.order_by("highest_id") if entry_id in row.ids), None)


class AuditSeal(AppendOnlyRow):
    """One batch of entries in the order of the chain. Its link covers its numbers and its time."""

    number = models.BigIntegerField(primary_key=True)
    """1, 2, 3 … without gaps."""
    first = models.BigIntegerField()
    """Position of its first entry in the chain: 1, 2, 3 … over all seals."""
    sealed_us = models.BigIntegerField()
    """Microseconds since 1970, UTC."""
    lowest_id = models.BigIntegerField()
    highest_id = models.BigIntegerField()
    """Of its entries, to find it by one of them; what counts is `entry_ids`."""
    entry_ids = models.BinaryField()
    """Eight bytes each, big-endian, in the order of the chain."""
    links = models.BinaryField()
    """32 bytes each: the seal's own link, then one for each entry."""

    objects = SealQuerySet.as_manager()

    class Meta:
        default_permissions = ()
        ordering = ("number",)
        indexes = (models.Index(fields=("highest_id",), name="seal_by_entry"),)

    def __str__(self) -> str:
        return f"seal {self.number}"

    @property
    def ids(self) -> tuple[int, ...]:
        return unpack_ids(bytes(self.entry_ids))

    def position_of(self, entry_id: int) -> int:
        """In the chain. Raises ValueError for an entry that it does not hold."""
        return self.first + self.ids.index(entry_id)

    def plain(self) -> Seal:
        links = bytes(self.links)
        between = self.lowest_id, self.highest_id
        return Seal(self.number, self.first, self.sealed_us, self.ids, links, *between)


class AuditHead(models.Model):
    """Where the chain ends: one row, which whoever seals locks. It is a note, and no proof."""

    ONE = 1

    id = models.PositiveSmallIntegerField(primary_key=True, default=ONE)
    number = models.BigIntegerField(default=0)
    """Of the last seal."""
    position = models.BigIntegerField(default=0)
    link = models.BinaryField(default=BEGINNING)
    entry_id = models.BigIntegerField(default=0)
    """The highest id sealed so far."""
    missing = models.JSONField(default=list)
    """[first id, last id, when it was first missed in microseconds]: lower ids that were not there.
    A transaction that began earlier may still commit them."""
    sealed_us = models.BigIntegerField(default=0)

    class Meta:
        default_permissions = ()

    def __str__(self) -> str:
        return f"{self.position}:{bytes(self.link).hex()}"

    def plain(self) -> Head:
        missing = tuple((lo, hi) for lo, hi, _ in self.missing)
        return Head(self.number, self.position, bytes(self.link), self.entry_id, missing)
