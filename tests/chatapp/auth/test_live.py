"""Open streams lose their viewer's right soon after it is revoked (law 15)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from django.contrib.sessions.models import Session
from django.db import OperationalError
from django.test import Client
from django.utils import timezone

from chatapp.auth import LiveCredentials, Principal, by_key, by_session, make_key
from chatapp.auth.live import still_valid
from chatapp.middleware.threads import DatabaseThreads
from chatapp.models import ApiKey, User
from tests.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from pytest_django import DjangoAssertNumQueries


class Stream:
    def __init__(self) -> None:
        self.comment = ""

    def shut(self, comment: str) -> None:
        self.comment = comment


@pytest.fixture
def by_bearer(user: User) -> Principal:
    principal = by_key(make_key(user))
    assert principal is not None
    return principal


@pytest.fixture
def by_cookie(user: User) -> Principal:
    client = Client()
    client.force_login(user)
    principal = by_session(client.cookies["sessionid"].value)
    assert principal is not None
    return principal


@pytest.fixture
async def threads() -> AsyncIterator[DatabaseThreads]:
    made = DatabaseThreads(size=1)
    yield made
    await made.aclose()


def test_all_credentials_are_looked_up_in_one_query(
    user: User,
    stranger: User,
    by_bearer: Principal,
    by_cookie: Principal,
    django_assert_num_queries: DjangoAssertNumQueries,
) -> None:
    others = [by_key(make_key(stranger)) for _ in range(20)]
    everybody = [by_bearer, by_cookie, *[other for other in others if other]]
    with django_assert_num_queries(1):
        assert still_valid(everybody) == set(everybody)


@pytest.mark.parametrize("few", ["key", "session", "none"])
def test_one_kind_alone_is_looked_up_as_well(
    few: str, by_bearer: Principal, by_cookie: Principal
) -> None:
    some = {"key": [by_bearer], "session": [by_cookie], "none": []}[few]
    assert still_valid(some) == set(some)


def test_a_revoked_key_is_not_valid(by_bearer: Principal, by_cookie: Principal) -> None:
    ApiKey.objects.update(revoked_at=timezone.now())
    assert still_valid([by_bearer, by_cookie]) == {by_cookie}


def test_a_session_that_ended_is_not_valid(by_bearer: Principal, by_cookie: Principal) -> None:
    Session.objects.all().delete()
    assert still_valid([by_bearer, by_cookie]) == {by_bearer}


def test_a_changed_password_ends_sessions_and_not_keys(
    by_bearer: Principal, by_cookie: Principal
) -> None:
    User.objects.update(password="another")
    assert still_valid([by_bearer, by_cookie]) == {by_bearer}


def test_an_inactive_person_is_not_valid(by_bearer: Principal, by_cookie: Principal) -> None:
    User.objects.update(is_active=False)
    assert still_valid([by_bearer, by_cookie]) == set()


async def test_streams_are_shut_by_themselves(
    by_bearer: Principal, by_cookie: Principal, threads: DatabaseThreads
) -> None:
    live = LiveCredentials(threads, check_s=0.01)
    revoked, other = Stream(), Stream()
    with live.watching(by_bearer, revoked), live.watching(by_cookie, other):
        await ApiKey.objects.aupdate(revoked_at=timezone.now())
        await wait_until(lambda: revoked.comment, "the stream to be shut")
        assert other.comment == ""
    assert "no longer valid" in revoked.comment


async def test_the_check_lives_as_long_as_there_are_streams(
    by_bearer: Principal, threads: DatabaseThreads
) -> None:
    live = LiveCredentials(threads)
    before = asyncio.all_tasks()
    with live.watching(by_bearer, Stream()):
        with live.watching(by_bearer, Stream()):
            assert repr(live) == "<LiveCredentials 1 credentials, 2 streams>"
            (task,) = asyncio.all_tasks() - before
        assert not task.cancelling()
    await asyncio.wait([task])
    assert task.cancelled()
    with live.watching(by_bearer, Stream()):
        assert len(asyncio.all_tasks() - before) == 1


async def test_a_database_that_is_away_revokes_nobody_for_a_while(
    by_bearer: Principal, threads: DatabaseThreads, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(principals: object) -> None:
        raise OperationalError("gone")

    monkeypatch.setattr("chatapp.auth.live.still_valid", away)
    stream = Stream()
    patient = LiveCredentials(threads)
    with patient.watching(by_bearer, stream):
        await patient.check()
        assert stream.comment == ""
    blind = LiveCredentials(threads, blind_s=0)
    with blind.watching(by_bearer, stream):
        await blind.check()
        assert "cannot be verified" in stream.comment
