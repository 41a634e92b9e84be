"""Whoever begins what waits: several may come at the same moment, and each answer has one place."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from chatapp.models import Chat, Plan, User
from chatapp.services import context
from chatapp.services.settling import start_next
from tests.chatapp.services.test_double_text import answer, queueing, say, states

if TYPE_CHECKING:
    from relay import MemoryStore, ModelConfig

__all__ = ["queueing"]

pytestmark = pytest.mark.usefixtures("store")


def held(store: MemoryStore, user: User) -> set[str]:
    """Whose places the person's plan counts."""
    return set(store.quotas._people[str(user.pk)].running)


async def test_who_comes_second_does_not_give_back_the_place_of_what_the_first_began(
    queueing: Chat, user: User, store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An end, an arrival and each sweep begin what waits, perhaps at the same moment."""
    plan = await Plan.objects.acreate(name="two", max_generations=2)
    await User.objects.aupdate(plan=plan)
    first, second = await say(queueing, "one"), await say(queueing, "two")
    ready_to_count, came = context.ready_to_count, 0

    async def overtaken(model: ModelConfig | None) -> None:
        nonlocal came
        came += 1
        if came == 1:  # it has its place, and has not begun: another process begins it first
            await start_next(queueing.pk)
        await ready_to_count(model)

    monkeypatch.setattr(context, "ready_to_count", overtaken)
    await answer(store, first, "eins")
    assert came == 2
    assert await states(queueing) == ["completed", "queued"]
    assert held(store, user) == {second.pk}


async def test_a_repeat_of_what_waits_takes_no_place(
    queueing: Chat, user: User, store: MemoryStore
) -> None:
    plan = await Plan.objects.acreate(name="three", max_generations=3)
    await User.objects.aupdate(plan=plan)
    first = await say(queueing, "one")
    for _ in range(2):
        await say(queueing, "two", idempotency_key="k")
    assert await states(queueing) == ["queued", "waits"]
    assert held(store, user) == {first.pk}
