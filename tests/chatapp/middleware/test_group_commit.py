"""Many transactions, one commit, and what one of them raises is its own affair."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.db import OperationalError, connection, connections, transaction
from django.test.utils import CaptureQueriesContext

from chatapp.middleware.group_commit import GroupCommit, commit
from chatapp.middleware.threads import DatabaseThread
from chatapp.models import User

pytestmark = pytest.mark.django_db(transaction=True)


def make(name: str) -> Callable[[], str]:
    def work() -> str:
        User.objects.create(username=name)
        return name

    return work


def refuse() -> None:
    User.objects.create(username="half done")
    raise ValueError("no")


def names() -> set[str]:
    return set(User.objects.values_list("username", flat=True))


def test_one_that_fails_leaves_the_others_written() -> None:
    first, second, third = commit([make("ann"), refuse, make("bob")])
    assert (first, third) == ("ann", "bob")
    assert isinstance(second, ValueError)
    assert names() == {"ann", "bob"}


def test_many_share_one_commit() -> None:
    with CaptureQueriesContext(connection) as queries:
        commit([make("ann"), make("bob"), make("cem")])
    commits = [query for query in queries if query["sql"].startswith("COMMIT")]
    assert len(commits) == 1


def test_a_commit_that_fails_is_repeated_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    depth = 0
    real = transaction.atomic

    class Failing:
        """The outermost transaction of the group does its work and then cannot commit."""

        def __enter__(self) -> None:
            nonlocal depth
            depth += 1
            self._real = real()
            self._real.__enter__()
            if depth == 1:
                monkeypatch.setattr(transaction, "atomic", real)

        def __exit__(self, *exc: Any) -> None:
            error = OperationalError("the server closed the connection")
            self._real.__exit__(OperationalError, error, None)
            raise error

    monkeypatch.setattr(transaction, "atomic", Failing)
    assert commit([make("ann"), make("bob")]) == ["ann", "bob"]
    assert names() == {"ann", "bob"}


def test_behind_a_lock_all_wait_once_and_not_one_after_the_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begun = 0

    class Locked:
        def __enter__(self) -> None:
            nonlocal begun
            begun += 1
            raise OperationalError("database is locked")

        def __exit__(self, *exc: object) -> None: ...

    monkeypatch.setattr(transaction, "atomic", Locked)
    outcomes = commit([make("ann"), make("bob"), make("cem")])
    assert [type(outcome) for outcome in outcomes] == [OperationalError] * 3
    assert begun == 1


@pytest.fixture
def thread() -> Iterator[DatabaseThread]:
    made = DatabaseThread("test-writer")
    yield made
    made.submit(connections.close_all).result()
    made.shutdown()


async def test_tasks_get_their_own_results_and_exceptions(thread: DatabaseThread) -> None:
    group = GroupCommit(thread)
    results = await asyncio.gather(
        group.run(make("ann")), group.run(refuse), group.run(make("bob")), return_exceptions=True
    )
    assert results[0] == "ann"
    assert isinstance(results[1], ValueError)
    assert results[2] == "bob"


async def test_a_task_that_was_cancelled_harms_nobody(thread: DatabaseThread) -> None:
    group = GroupCommit(thread)
    impatient = asyncio.create_task(group.run(make("ann")))
    patient = asyncio.create_task(group.run(make("bob")))
    await asyncio.sleep(0)
    impatient.cancel()
    assert await patient == "bob"
