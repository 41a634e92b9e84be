"""Who may change people gets no more rights by it than they have, and the trail knows of each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest
from django.contrib.auth.models import Group, Permission
from django.test import Client

from chatapp.models import AuditEvent, User

if TYPE_CHECKING:
    from collections.abc import Callable


pytestmark = pytest.mark.usefixtures("transactional_db")

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
    assert [one for one in entries("rights given") if one[0]] == []


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
    told = [
        ("admin-person", user.username, {"given": [one]}) for one in ("is_staff", "group admin")
    ]
    assert entries("rights given")[-2:] == told
    form["groups"] = []
    assert browser.post(page, form).status_code == 302
    told = [("admin-person", user.username, {"taken": ["group admin"]})]
    assert entries("rights taken") == told


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


def test_what_a_group_may_is_in_the_trail(user: User) -> None:
    root = User.objects.create_superuser("root", password="p")
    browser = Client()
    browser.force_login(root)
    group = Group.objects.create(name="readers")
    see, read = (Permission.objects.get(codename=one) for one in ("view_response", "read_text"))
    page = f"/admin/auth/group/{group.pk}/change/"
    for permissions in ([see.pk, read.pk], [see.pk], [see.pk]):
        form = {"name": "readers", "permissions": permissions}
        assert browser.post(page, form).status_code == 302
    user.groups.add(group)
    assert browser.post(page, {"name": "lookers", "permissions": [see.pk]}).status_code == 302
    assert browser.post(f"/admin/auth/group/{group.pk}/delete/", {"post": "yes"}).status_code == 302
    assert not Group.objects.exists()
    assert entries("group changed") == [
        ("root", "", {"group": "readers", "given": ["chatapp.read_text", "chatapp.view_response"]}),
        ("root", "", {"group": "readers", "taken": ["chatapp.read_text"]}),
        ("root", "", {"group": "readers", "now": "lookers"}),
        ("root", "", {"group": "lookers", "removed": True, "taken": ["chatapp.view_response"]}),
    ]
    assert entries("rights taken") == [("root", "ann", {"taken": ["group lookers"]})]


def test_what_is_given_at_a_shell_is_in_the_trail_without_a_name(user: User) -> None:
    group = Group.objects.create(name="readers")
    see = Permission.objects.get(codename="view_response")
    group.user_set.add(user)
    group.user_set.add(user)  # has it already
    see.user_set.add(user)
    see.group_set.add(group)
    user.is_superuser = True
    user.save()
    user.last_name = "Lee"
    user.save(update_fields=["last_name"])
    given = [["group readers"], ["chatapp.view_response"], ["is_superuser"]]
    assert entries("rights given") == [("", "ann", {"given": one}) for one in given]
    user.user_permissions.clear()
    user.groups.remove(group)
    user.groups.remove(group)  # has it no more
    user.is_superuser = user.is_staff = False
    user.save(update_fields=["is_superuser"])
    taken = [["chatapp.view_response"], ["group readers"], ["is_superuser"]]
    assert entries("rights taken") == [("", "ann", {"taken": one}) for one in taken]
    group.permissions.clear()
    told = {"group": "readers", "given": ["chatapp.view_response"]}
    gone = {"group": "readers", "taken": ["chatapp.view_response"]}
    assert entries("group changed") == [("", "", told), ("", "", gone)]


def test_who_signs_up_or_is_let_go_again_is_told_by_flags() -> None:
    somebody = User.objects.create_user("carla")
    assert entries("rights given") == []
    somebody.is_active = False
    somebody.save()
    assert entries("rights taken") == [("", "carla", {"taken": ["is_active"]})]
