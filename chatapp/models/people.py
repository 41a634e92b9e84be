"""People, what their plans let them do, and the keys of their programs."""

from __future__ import annotations

from typing import Any, ClassVar, Final, Self

from django.contrib.auth.models import AbstractUser, UserManager
from django.core.exceptions import PermissionDenied
from django.core.validators import MinValueValidator
from django.db import DEFAULT_DB_ALIAS, connections, models, transaction

from chatapp.languages import LANGUAGES


class Plan(models.Model):
    """What people may do, and at which price. A change counts from the next request on."""

    name = models.CharField(max_length=100, unique=True)
    max_generations = models.PositiveIntegerField("answers at a time", default=4)
    """0 = no limit."""
    max_output_tokens_per_day = models.PositiveIntegerField("output tokens per UTC day", default=0)
    """0 = no limit."""
    model_names = models.TextField("models", blank=True)
    """Names of the models file, separated by spaces, commas or lines; empty = all."""
    input_price_per_mtok = models.DecimalField(
        "price of a million input tokens",
        max_digits=12,
        decimal_places=6,
        null=True,
        blank=True,
        validators=[MinValueValidator(0)],
    )
    """Instead of the models file's, in its currency; null: that one."""
    output_price_per_mtok = models.DecimalField(
        "price of a million output tokens",
        max_digits=12,
        decimal_places=6,
        null=True,
        blank=True,
        validators=[MinValueValidator(0)],
    )

    text_retention_days = models.PositiveIntegerField(
        "days for which text is kept", null=True, blank=True, validators=[MinValueValidator(1)]
    )
    """Then what was asked and answered is dropped; figures and trail stay. Null: it is kept."""

    class Meta:
        ordering = ("name",)

    def __str__(self) -> str:
        return self.name

    @property
    def allowed(self) -> frozenset[str]:
        """Names of models; empty = all."""
        return frozenset(self.model_names.replace(",", " ").split())


ERASED: Final = "erased-"
"""What the names of erased people begin with (services/erasing.py)."""
NAMES: Final = frozenset({"username", "email", "first_name", "last_name"})
"""What says who somebody is."""


def is_erased(user_id: int) -> bool:
    """Whether nothing may be kept of this person any more. To be asked in the transaction that
    keeps something: until its commit an erase waits, and then finds it."""
    connection = connections[DEFAULT_DB_ALIAS]
    sql = "SELECT username FROM chatapp_user WHERE id = %s"
    if connection.features.has_select_for_update:
        # The lock of a foreign key, which the database itself takes at the commit: too late, an
        # erase may be over by then. Django knows none that lets a person's questions pass at once.
        sql += " FOR KEY SHARE"
    with connection.cursor() as cursor:
        cursor.execute(sql, [user_id])
        row = cursor.fetchone()
    return row is None or row[0].startswith(ERASED)


class UserQuerySet(models.QuerySet["User"]):
    def select_for_update(self, *args: Any, **kwargs: Any) -> Self:
        """Locks the person alone: PostgreSQL refuses to lock a plan that may not be there, and
        allauth, which locks people, does not know that they come with one."""
        return super().select_for_update(*args, **{"of": ("self",), **kwargs})


class People(UserManager["User"]):
    """A person comes with their plan: no question pays a query for it."""

    use_in_migrations = False

    def get_queryset(self) -> UserQuerySet:
        return UserQuerySet(self.model, using=self._db).select_related("plan")


class User(AbstractUser):
    """A person who signs in. Ours from the first migration, so that it can grow."""

    class Theme(models.TextChoices):
        LIGHT = "light"
        DARK = "dark"

    class Announces(models.TextChoices):
        """Of an answer, to a screen reader; empty: that it begins and that it has ended."""

        WHOLE = "whole"
        SENTENCES = "sentences"
        SILENT = "silent"

    plan = models.ForeignKey(
        Plan, on_delete=models.SET_NULL, null=True, blank=True, related_name="people"
    )
    """Null: the settings' limits."""
    theme = models.CharField(max_length=8, choices=Theme.choices, blank=True)
    """Empty: as the device has it."""
    language = models.CharField(max_length=8, choices=LANGUAGES, blank=True)
    """Empty: as the browser asks for."""
    enter_sends = models.BooleanField("Enter sends", default=True)
    """Else it makes a line, and Ctrl or ⌘ with it sends."""
    announces = models.CharField(max_length=9, choices=Announces.choices, blank=True)
    keeps_answering = models.BooleanField("answers go on when I leave", default=False)
    """Nobody's absence stops an answer that was asked for in the page (law 8)."""

    objects: ClassVar[People] = People()

    def save(self, *args: Any, update_fields: Any = None, **kwargs: Any) -> None:
        """Raises PermissionDenied for who was erased since this was read: an erase is final."""
        names = NAMES if update_fields is None else NAMES.intersection(update_fields)
        if self._state.adding or not names or self.username.startswith(ERASED):
            super().save(*args, update_fields=update_fields, **kwargs)
            return
        with transaction.atomic():
            if is_erased(self.pk):
                raise PermissionDenied
            super().save(*args, update_fields=update_fields, **kwargs)


class ApiKeyQuerySet(models.QuerySet["ApiKey"]):
    def usable(self) -> Self:
        return self.filter(revoked_at=None, user__is_active=True)


class ApiKey(models.Model):
    """A bearer key. Only its hash is kept; the key is shown once, when it is made."""

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="api_keys")
    name = models.CharField(max_length=100, blank=True)
    prefix = models.CharField(max_length=16, unique=True)
    """Public first part: finds the row, and lets a person tell keys apart."""
    digest = models.CharField(max_length=64)
    """SHA-256 of the whole key: 256 random bits need no slow hash."""
    created_at = models.DateTimeField(auto_now_add=True)
    last_used_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)

    objects = ApiKeyQuerySet.as_manager()

    class Meta:
        ordering = ("-created_at",)

    def __str__(self) -> str:
        return f"{self.prefix}…"
