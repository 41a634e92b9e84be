"""Who may change people gets no more rights by it than they have, and the trail knows of each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from chatapp.models import AuditEvent, User

if TYPE_CHECKING:
    from collections.abc import Callable

    from django.test import Client

FORM: Final = {
    "is_active": "on",
    "is_staff": "on",
    "date_joined_0": "2026-01-01",
    "date_joined_1": "10:00:00",
}
PASSWORD: Final = "battery-staple-9"


def groups_of(person: User) -> list[int]:
    return list(person.groups.values_list("pk", flat=True))


def entries(action: str) -> list[tuple[str, str, dict[str, list[str]]]]:
    rows = AuditEvent.objects.filter(action=action).order_by("pk")
    return [(row.actor, row.username, row.detail) for row in rows]


def test_nobody_makes_themselves_a_superuser(staff: Callable[[str], Client]) -> None:
    browser, me = staff("admin"), User.objects.get(username="admin-person")
    form = FORM | {"username": me.username, "groups": groups_of(me), "is_superuser": "on"}
    form["user_permissions"] = [1, 2]
    assert browser.post(f"/admin/chatapp/user/{me.pk}/change/", form).status_code == 302
    me.refresh_from_db()
    assert not me.is_superuser
    assert not me.user_permissions.exists()
    assert entries("rights given") == []


def test_superusers_are_changed_by_superusers(staff: Callable[[str], Client]) -> None:
    browser = staff("admin")
    root = User.objects.create_superuser("root", password="p")
    page = f"/admin/chatapp/user/{root.pk}"
    assert browser.get(f"{page}/change/").status_code == 200  # to be looked at
    form = {"password1": PASSWORD, "password2": PASSWORD, "usable_password": "true"}
    assert browser.post(f"{page}/password/", form).status_code == 403
    assert browser.post(f"{page}/change/", FORM | {"username": "mallory"}).status_code == 403
    chosen = {"action": "ask_for_no_codes", "_selected_action": [root.pk]}
    assert "nobody" in browser.post("/admin/chatapp/user/", chosen, follow=True).content.decode()
    root.refresh_from_db()
    assert root.username == "root"
    assert root.check_password("p")


def test_rights_that_are_given_are_in_the_trail(staff: Callable[[str], Client], user: User) -> None:
    browser, me = staff("admin"), User.objects.get(username="admin-person")
    form = FORM | {"username": user.username, "groups": groups_of(me)}
    page = f"/admin/chatapp/user/{user.pk}/change/"
    for _ in range(2):  # the second time nothing changes
        assert browser.post(page, form).status_code == 302
    after = ["is_active", "is_staff", "group admin"]
    told = {"before": ["is_active"], "after": after}
    assert entries("rights given") == [("admin-person", user.username, told)]


def test_a_password_that_somebody_else_sets_is_in_the_trail(
    staff: Callable[[str], Client], user: User
) -> None:
    browser = staff("admin")
    page = f"/admin/chatapp/user/{user.pk}/password/"
    assert browser.post(page, {"password1": "x", "password2": "y"}).status_code == 200
    assert entries("password set") == []
    form = {"password1": PASSWORD, "password2": PASSWORD, "usable_password": "true"}
    assert browser.post(page, form).status_code == 302
    assert entries("password set") == [("admin-person", user.username, {})]
