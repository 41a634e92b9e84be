"""Who is asking."""

from __future__ import annotations

from datetime import timedelta
from importlib import import_module
from typing import TYPE_CHECKING, Any

import pytest
from django.contrib.sessions.models import Session
from django.db import OperationalError
from django.db.models import QuerySet
from django.test import Client
from django.utils import timezone

from chatapp.auth import by_key, by_session, identify, make_key
from chatapp.models import ApiKey, User

if TYPE_CHECKING:
    from pytest_django import DjangoAssertNumQueries


@pytest.fixture
def session_key(user: User) -> str:
    client = Client()
    client.force_login(user)
    return client.cookies["sessionid"].value


def test_a_key_names_its_owner(user: User, stranger: User) -> None:
    mine, theirs = make_key(user, "script"), make_key(stranger)
    principal = by_key(mine)
    assert principal is not None
    assert principal.user == user
    # As loaded by a query of our own: each value in its column.
    assert (principal.user.username, principal.user.password) == ("ann", user.password)
    assert principal.user.is_active is True
    other = by_key(theirs)
    assert other is not None
    assert (other.user.username, other.login) != (principal.user.username, principal.login)


def test_only_the_hash_of_a_key_is_kept(user: User) -> None:
    key = make_key(user)
    row = ApiKey.objects.get()
    assert key.startswith(row.prefix)
    assert row.last_used_at is None
    values = " ".join(str(value) for value in ApiKey.objects.values_list().get())
    assert key not in values
    assert key.rpartition("_")[2] not in values


@pytest.mark.parametrize("change", ["", "x", "0" * 200, "ub_00000000_"])
def test_any_other_key_is_nobodys(user: User, change: str) -> None:
    key = make_key(user)
    for wrong in (change, key[:-1], key + change + "x", key[:11] + change, key.upper()):
        assert by_key(wrong) is None


def test_a_revoked_key_is_nobodys(user: User, key: str) -> None:
    ApiKey.objects.update(revoked_at=timezone.now())
    assert by_key(key) is None


def test_the_key_of_an_inactive_person_is_nobodys(user: User, key: str) -> None:
    User.objects.update(is_active=False)
    assert by_key(key) is None


def test_the_use_of_a_key_is_noted_once_a_minute(
    key: str, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    with django_assert_num_queries(2):
        by_key(key)
    with django_assert_num_queries(1):
        by_key(key)
    assert ApiKey.objects.get().last_used_at is not None


def test_a_key_is_good_where_its_use_cannot_be_noted(
    key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk, a lock that somebody holds: reading goes on."""

    def full(*_: object, **__: object) -> int:
        raise OperationalError("database or disk is full")

    monkeypatch.setattr(QuerySet, "update", full)
    assert by_key(key) is not None


def test_a_session_names_its_person(
    user: User, session_key: str, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    with django_assert_num_queries(2):
        principal = by_session(session_key)
    assert principal is not None
    assert principal.user == user
    assert session_key not in principal.login


def test_a_session_that_ended_is_nobodys(session_key: str) -> None:
    Session.objects.all().delete()
    assert by_session(session_key) is None


def test_a_session_that_expired_is_nobodys(session_key: str) -> None:
    Session.objects.update(expire_date=timezone.now() - timedelta(seconds=1))
    assert by_session(session_key) is None


def test_a_changed_password_ends_its_sessions(user: User, session_key: str) -> None:
    user.set_password("another")
    user.save()
    assert by_session(session_key) is None


def test_an_inactive_person_has_no_session(session_key: str) -> None:
    User.objects.update(is_active=False)
    assert by_session(session_key) is None


def test_a_session_of_nobody_is_nobodys(transactional_db: None, settings: Any) -> None:
    store = import_module(settings.SESSION_ENGINE).SessionStore()
    store["something"] = 1
    store.save()
    assert by_session(store.session_key) is None


def test_a_header_wins_over_a_cookie(user: User, stranger: User, session_key: str) -> None:
    theirs = identify(f"bearer  {make_key(stranger)}", session_key)
    assert theirs is not None
    assert theirs.user == stranger
    assert identify("Bearer nonsense", session_key) is None
    assert identify("Basic abc", session_key) is None
    mine = identify("", session_key)
    assert mine is not None
    assert mine.user == user
    assert identify("", "") is None
