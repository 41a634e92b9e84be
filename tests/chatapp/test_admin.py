"""The admin: everything can be found, people and plans are edited, what runs can be stopped."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from asgiref.sync import sync_to_async
from django.contrib.admin.utils import quote
from django.contrib.auth.models import Permission
from django.test import AsyncClient, Client
from django.utils import timezone

from chatapp import audit
from chatapp.admin import page_of
from chatapp.auth import by_key, make_key
from chatapp.models import ApiKey, AuditEvent, Chat, Plan, Response, User
from chatapp.services.settling import submit
from tests.chatapp.conftest import make_row

if TYPE_CHECKING:
    from relay import MemoryStore


@pytest.fixture
def admin(transactional_db: None) -> User:
    return User.objects.create_superuser("root", password="x")


@pytest.fixture
def browser(admin: User) -> Client:
    client = Client()
    client.force_login(admin)
    return client


@pytest.fixture
def rows(user: User, stranger: User) -> dict[str, Response]:
    now = timezone.now()
    return {
        "mine": make_row(user),
        "failed": make_row(user, status="failed", reason="stalled", ended_at=now),
        "theirs": make_row(stranger, model="other", status="completed", ended_at=now),
    }


def listed(browser: Client, what: str, query: str) -> set[str]:
    reply = browser.get(f"/admin/chatapp/{what}/?{query}")
    assert reply.status_code == 200
    return {str(row) for row in reply.context["cl"].result_list}


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("", {"mine", "failed", "theirs"}),
        ("q=bob", {"theirs"}),
        ("q=other", {"theirs"}),
        ("q=stalled", {"failed"}),
        ("status__exact=failed", {"failed"}),
        ("model=fast", {"mine", "failed"}),
        ("created_at__year=1999", set()),
    ],
)
def test_responses_are_found_by_person_model_end_and_date(
    browser: Client, rows: dict[str, Response], query: str, found: set[str]
) -> None:
    assert listed(browser, "response", query) == {rows[name].pk for name in found}


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("", {"mine", "failed", "theirs"}),
        ("q=bob", {"theirs"}),
        ("q=failed", {"failed"}),
        ("action=created&status=completed", {"theirs"}),
        ("at__year=1999", set()),
    ],
)
def test_audit_entries_are_found_too(
    browser: Client, rows: dict[str, Response], query: str, found: set[str]
) -> None:
    for row in rows.values():
        audit.created(row, actor="ann", detail={})
    of_whoever_looks = {"rights given "}
    shown = listed(browser, "auditevent", query) - of_whoever_looks
    assert shown == {f"created {rows[name].pk}" for name in found}


def test_the_entries_of_one_response_are_a_link_away(
    browser: Client, rows: dict[str, Response]
) -> None:
    for row in rows.values():
        audit.created(row, actor="ann", detail={})
    pk = rows["failed"].pk
    page = browser.get(page_of(pk)).content.decode()
    link = f"/admin/chatapp/auditevent/?response_id={pk}"
    assert link in page
    assert listed(browser, "auditevent", f"response_id={pk}") == {
        f"created {pk}",
        f"text read {pk}",
    }
    assert page_of(pk) in browser.get(link).content.decode()


def test_an_id_that_admin_would_misread_has_a_page(browser: Client, user: User) -> None:
    row = make_row(user, id="resp_0_22" + "0" * 30)  # _22 is how admin writes a quotation mark
    assert browser.get(page_of(row.pk)).status_code == 200


def test_nothing_is_edited(browser: Client, user: User, chat: Chat, row: Response) -> None:
    make_key(user)
    audit.created(row, actor="ann", detail={})
    things = {
        "response": quote(row.pk),
        "auditevent": AuditEvent.objects.get(action="created").pk,
        "chat": chat.pk,
        "apikey": ApiKey.objects.get().pk,
    }
    for name, pk in things.items():
        url = f"/admin/chatapp/{name}"
        assert browser.get(f"{url}/{pk}/change/").status_code == 200, name
        assert browser.post(f"{url}/{pk}/change/", {}).status_code == 403, name
        assert browser.get(f"{url}/{pk}/delete/").status_code == 403, name
        assert browser.get(f"{url}/add/").status_code == 403, name


async def stop_from_list(client: AsyncClient, row: Response) -> Any:
    data = {"action": "stop", "_selected_action": [row.pk]}
    return await client.post("/admin/chatapp/response/", data)


async def test_a_running_response_is_stopped_from_the_list(
    admin: User, row: Response, store: MemoryStore
) -> None:
    await submit(row)
    client = AsyncClient()
    await client.aforce_login(admin)
    assert (await stop_from_list(client, row)).status_code == 302
    await row.arefresh_from_db()
    assert (row.status, row.reason, row.stop_by) == ("cancelled", "admin", "root")


async def test_a_running_response_is_stopped_from_its_page(
    admin: User, row: Response, store: MemoryStore
) -> None:
    await submit(row)
    client = AsyncClient()
    await client.aforce_login(admin)
    url = f"/admin/chatapp/response/{row.pk}/stop/"
    assert (await client.get(url)).status_code == 405
    reply = await client.post(url)
    assert reply.status_code == 302
    page = (await client.get(reply["Location"])).content.decode()
    assert "1 stopped, 0 still stopping." in page
    await row.arefresh_from_db()
    assert (row.status, row.reason) == ("cancelled", "admin")


async def test_a_store_that_is_away_is_said_so(
    admin: User, row: Response, store: MemoryStore
) -> None:
    store.faults.unreachable = True
    client = AsyncClient()
    await client.aforce_login(admin)
    reply = await client.post(f"/admin/chatapp/response/{row.pk}/stop/")
    page = (await client.get(reply["Location"])).content.decode()
    assert "the stop is tried again" in page


async def test_who_may_only_look_cannot_stop(user: User, row: Response, store: MemoryStore) -> None:
    def make_viewer() -> None:
        user.is_staff = True
        user.save()
        user.user_permissions.add(Permission.objects.get(codename="view_response"))

    await sync_to_async(make_viewer)()
    client = AsyncClient()
    await client.aforce_login(user)
    page = (await client.get(page_of(row.pk))).content.decode()
    assert "Stop this answer" not in page
    await client.post(f"/admin/chatapp/response/{row.pk}/stop/")
    await stop_from_list(client, row)
    await row.arefresh_from_db()
    assert row.stop_requested_at is None


def test_a_key_is_revoked(browser: Client, user: User) -> None:
    key = make_key(user)
    assert by_key(key) is not None
    pk = ApiKey.objects.get().pk
    data: dict[str, Any] = {"action": "revoke", "_selected_action": [pk]}
    browser.post("/admin/chatapp/apikey/", data)
    assert by_key(key) is None


def test_people_are_managed_as_usual(browser: Client, user: User) -> None:
    assert browser.get(f"/admin/chatapp/user/{user.pk}/change/").status_code == 200


PLAN = {"name": "small", "max_generations": "2", "max_output_tokens_per_day": "1000"}


def trail() -> list[tuple[str, str, dict[str, Any]]]:
    events = AuditEvent.objects.filter(action__startswith="plan").order_by("id")
    return [(event.action, event.actor, event.detail) for event in events]


def test_a_plan_is_edited_and_each_change_leaves_an_entry(browser: Client) -> None:
    reply = browser.post("/admin/chatapp/plan/add/", PLAN | {"model_names": "fast"})
    assert reply.status_code == 302, reply.content
    plan = Plan.objects.get()
    assert (plan.max_generations, plan.allowed) == (2, frozenset({"fast"}))
    url = f"/admin/chatapp/plan/{plan.pk}/change/"
    assert browser.post(url, PLAN | {"max_generations": "3"}).status_code == 302
    assert browser.post(url, PLAN | {"max_generations": "3"}).status_code == 302  # no change
    browser.post(f"/admin/chatapp/plan/{plan.pk}/delete/", {"post": "yes"})
    assert not Plan.objects.exists()
    (added, changed, removed) = trail()
    assert added[:2] == changed[:2] == removed[:2] == ("plan changed", "root")
    assert changed[2] == {"plan": "small", "max_generations": 3, "model_names": ""}
    assert removed[2] == {"plan": "small", "removed": True}


def test_a_plan_with_a_model_that_is_none_is_not_saved(browser: Client) -> None:
    reply = browser.post("/admin/chatapp/plan/add/", PLAN | {"model_names": "fast, nope"})
    assert reply.status_code == 200
    assert "There is no model nope. Models: fast, other." in reply.content.decode()


def test_giving_a_plan_leaves_an_entry(browser: Client, user: User) -> None:
    plan = Plan.objects.create(name="small")
    url = f"/admin/chatapp/user/{user.pk}/change/"
    form = {"username": "ann", "date_joined_0": "2026-01-01", "date_joined_1": "00:00:00"}
    for _ in range(2):
        reply = browser.post(url, form | {"plan": str(plan.pk), "is_active": "on"})
        assert reply.status_code == 302, reply.content
    assert User.objects.get(pk=user.pk).plan == plan
    assert trail() == [("plan given", "root", {"before": "", "after": "small"})]
    assert browser.get("/admin/chatapp/auditevent/").status_code == 200


def test_who_may_only_look_at_plans_changes_none(user: User) -> None:
    user.is_staff = True
    user.save()
    user.user_permissions.add(Permission.objects.get(codename="view_plan"))
    plan = Plan.objects.create(name="small")
    client = Client()
    client.force_login(user)
    url = f"/admin/chatapp/plan/{plan.pk}/change/"
    assert client.get(url).status_code == 200
    assert client.post(url, PLAN).status_code == 403
