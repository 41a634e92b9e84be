"""What is kept of an answer for whoever looks into it later: who, how often, and when what came."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from relay import events as ev
from relay.follow import follow
from relay.generate.story import MAX_NOTICES, MAX_POINTS, Story, Timeline

if TYPE_CHECKING:
    from relay.hub import Visit
    from tests.relay.stage import Stage


def told(*steps: tuple[float, int]) -> Timeline:
    """(seconds since the claim, tokens so far)."""
    timeline = Timeline(100.0)
    for at_s, tokens in steps:
        timeline.note(100.0 + at_s, tokens)
    return timeline


@given(st.lists(st.integers(1, 400), max_size=600))
def test_a_timeline_is_bounded_and_keeps_its_ends(pauses_ms: list[int]) -> None:
    timeline, at_ms = Timeline(0.0), 0
    for tokens, pause_ms in enumerate(pauses_ms, start=1):
        at_ms += pause_ms
        timeline.note(at_ms / 1000, tokens)
    points = timeline.points
    assert len(points) <= MAX_POINTS
    assert points[0] == (0, 0)
    assert points == sorted(points)
    assert points[-1][1] == len(pauses_ms)


def test_a_silence_is_shown_from_where_it_began() -> None:
    timeline = told((0.1, 1), (0.11, 2), (0.12, 3), (5.12, 4))
    assert timeline.points == [(0, 0), (100, 1), (120, 3), (5120, 4)]
    assert timeline.longest_gap == (120, 5000)


def test_waiting_for_the_first_token_is_no_gap() -> None:
    assert told((30.0, 0), (60.0, 1), (60.5, 2)).longest_gap == (60000, 500)
    assert told((30.0, 1)).longest_gap == (0, 0)


def test_notices_are_kept_without_their_words() -> None:
    said = [ev.Notice(seq=n, code="retrying", message="secret") for n in range(3, 50)]
    reading = [ev.Notice(seq=n, code="reading", message="", done=n, total=9) for n in (1, 2)]
    story = Story.of([*reading, *said], [], None)
    assert len(story.said) == MAX_NOTICES
    assert [one.code for one in story.said[:2]] == ["reading", "retrying"]
    assert b"secret" not in story.to_json()
    assert Story.from_json(story.to_json()).said == story.said


async def test_an_outcome_tells_who_claimed_it_and_how_its_tokens_came(stage: Stage) -> None:
    rid, call = await stage.asked()
    call.say("a", "b")
    call.end()
    outcome = await stage.outcome(rid)
    story = outcome.story
    assert story is not None
    (epoch, worker), (run,) = story.claims[0], story.runs
    assert worker == outcome.worker
    assert (run.epoch, run.attempt, run.seq) == (epoch, 1, 2)
    assert story.points[-1][1] == 2


async def test_who_comes_and_goes_is_told_with_cursors(stage: Stage) -> None:
    visits: list[Visit] = []
    stage.hub.hear_visits(visits.append)
    rid, call = await stage.asked()
    call.say("a")
    view = await follow(stage.hub, rid, after=1, viewer="s1/tab")
    async for _ in view:
        if view.seq >= 3:
            break
    await view.aclose()
    await view.aclose()
    call.end()
    (visit,) = visits
    assert (visit.response_id, visit.viewer) == (rid, "s1/tab")
    assert (visit.from_seq, visit.to_seq) == (1, 3)
