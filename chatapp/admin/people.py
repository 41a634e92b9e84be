"""People and their plans: the two things here that are edited. Each change leaves an audit entry;
those of rights by chatapp/auth/rights.py.

What is saved counts from the next request on: a plan is read with its person every time.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

from django import forms
from django.contrib import admin
from django.contrib.auth.admin import UserAdmin
from django.core.exceptions import ValidationError
from django.db import transaction

from chatapp import audit, catalog
from chatapp.admin.read_only import actor_of
from chatapp.auth.second_step import forget_second_step
from chatapp.models import Plan, User

if TYPE_CHECKING:
    from django.db.models import QuerySet
    from django.http import HttpRequest


# Django's own page of a person, to which a plan is added.
STOCK_FIELDSETS: Any = getattr(UserAdmin, "fieldsets")  # noqa: B009 - generic, says mypy

BEYOND_GROUPS: Final = ("is_superuser", "user_permissions")


class PlanForm(forms.ModelForm[Plan]):
    class Meta:
        model = Plan
        fields = "__all__"  # noqa: DJ007 - an operator sets all there is
        help_texts = {
            "max_generations": "0 = no limit",
            "max_output_tokens_per_day": "0 = no limit",
            "model_names": "Names, separated by spaces, commas or lines. Empty: all models.",
            "input_price_per_mtok": "Instead of the models file's. Empty: that one.",
            "output_price_per_mtok": "Instead of the models file's. Empty: that one.",
            "text_retention_days": "Then questions, answers and pictures are dropped; figures and "
            "the audit trail stay. Empty: text is kept.",
        }
        widgets = {"model_names": forms.Textarea(attrs={"rows": 3})}

    def clean_model_names(self) -> str:
        names: str = self.cleaned_data["model_names"]
        unknown = Plan(model_names=names).allowed - set(catalog.models())
        if unknown:
            listed = ", ".join(catalog.models()) or "none"
            raise ValidationError(
                f"There is no model {', '.join(sorted(unknown))}. Models: {listed}."
            )
        return names


@admin.register(Plan)
class PlanAdmin(admin.ModelAdmin[Plan]):
    form = PlanForm
    list_display = ("name", "max_generations", "max_output_tokens_per_day", "model_names")
    search_fields = ("name",)

    def save_model(self, request: HttpRequest, obj: Plan, form: Any, change: bool) -> None:
        super().save_model(request, obj, form, change)
        if form.changed_data or not change:
            changed = {name: _plain(form.cleaned_data[name]) for name in form.changed_data}
            audit.plan_changed(obj.name, actor=actor_of(request), change=changed)

    def delete_model(self, request: HttpRequest, obj: Plan) -> None:
        audit.plan_changed(obj.name, actor=actor_of(request), change={"removed": True})
        super().delete_model(request, obj)

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Plan]) -> None:
        for plan in queryset:
            audit.plan_changed(plan.name, actor=actor_of(request), change={"removed": True})
        super().delete_queryset(request, queryset)


@admin.register(User)
class PersonAdmin(UserAdmin[User]):
    list_display = ("username", "email", "plan", "is_staff", "is_active", "last_login")
    list_filter = ("plan", "is_staff", "is_superuser", "is_active")
    list_select_related = ("plan",)
    fieldsets = (*STOCK_FIELDSETS, ("Plan", {"fields": ("plan",)}))

    actions = ("ask_for_no_codes",)

    @admin.action(description="Ask for no codes when they sign in", permissions=["change"])
    def ask_for_no_codes(self, request: HttpRequest, queryset: QuerySet[User]) -> None:
        """For people who have lost their phone and their recovery codes."""
        actor = actor_of(request)
        names = [
            user.username
            for user in queryset
            if self.has_change_permission(request, user) and forget_second_step(user, actor=actor)
        ]
        self.message_user(request, f"No codes any more for: {', '.join(names) or 'nobody'}.")

    def has_change_permission(self, request: HttpRequest, obj: User | None = None) -> bool:
        """Superusers are changed by superusers: a new password would make whoever sets it one."""
        allowed = super().has_change_permission(request, obj)
        return allowed and (obj is None or not obj.is_superuser or _is_superuser(request))

    def get_readonly_fields(self, request: HttpRequest, obj: User | None = None) -> Any:
        """Nobody gives more rights than groups have, unless they have all."""
        fields = super().get_readonly_fields(request, obj)
        return fields if _is_superuser(request) else (*fields, *BEYOND_GROUPS)

    def user_change_password(self, request: HttpRequest, id: str, form_url: str = "") -> Any:
        """Noted: whoever sets a password can sign in with it, and read what no page shows them."""
        with transaction.atomic():
            reply = super().user_change_password(request, id, form_url)
            if request.method == "POST" and reply.status_code == HTTPStatus.FOUND:
                audit.password_set(User.objects.get(pk=id).username, actor=actor_of(request))
        return reply

    def save_model(self, request: HttpRequest, obj: User, form: Any, change: bool) -> None:
        before = User.objects.get(pk=obj.pk).plan if change else None
        super().save_model(request, obj, form, change)
        if before != obj.plan:
            audit.plan_given(
                obj.username,
                actor=actor_of(request),
                before=before.name if before else "",
                after=obj.plan.name if obj.plan else "",
            )


def _is_superuser(request: HttpRequest) -> bool:
    return bool(getattr(request.user, "is_superuser", False))


def _plain(value: Any) -> str | int | None:
    """As JSON has it."""
    return value if value is None or isinstance(value, int) else str(value)
