"""The rhythm of day and week: what is learnt of it, and what is not known of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from monitor.core.detectors.measures import rhythm, week

if TYPE_CHECKING:
    from monitor.core.detectors.base import Floats, State

BLOCK = 300.0
THURSDAY = 1_767_225_600.0
SATURDAY = THURSDAY + 2 * rhythm.DAY
WANDER = 0.07**2


def lived(days: float, weekend: float) -> State:
    """Return the rhythm of a stream that swings by the day, and by `weekend` logits on Saturdays and Sundays."""
    state = np.zeros(1, rhythm.DTYPE)
    rhythm.allocate(state)
    for block in range(int(days * rhythm.DAY / BLOCK)):
        at = np.array([THURSDAY + BLOCK * block])
        seen = rhythm.expect(state, at)
        surprise = level(at, weekend) - seen.level
        ones = np.ones(1)
        rhythm.learn(state, seen, surprise, 0.001 * ones, WANDER * ones, BLOCK / rhythm.DAY * ones)
    return state


def level(at: Floats, weekend: float) -> Floats:
    """Return the true level at a time."""
    free = (at // rhythm.DAY) % 7 // 2 == 1
    result: Floats = 0.2 * np.sin(2.0 * np.pi * at / rhythm.DAY) + weekend * free
    return result


@pytest.fixture(scope="module")
def two_weeks() -> State:
    """A stream that has seen two weekends, which are 0.2 logits lower."""
    return lived(14.0, -0.2)


@pytest.mark.parametrize(
    "hours", [6.0, 18.0, 30.0, 42.0], ids=["morning", "evening", "Sunday", "Sunday evening"]
)
def test_a_weekend_is_expected_to_be_like_the_last(two_weeks: State, hours: float) -> None:
    """After two weeks the third weekend is expected where it will be."""
    at = np.array([THURSDAY + 16 * rhythm.DAY + 3600.0 * hours])
    assert rhythm.at_time(two_weeks, at) == pytest.approx(level(at, -0.2), abs=0.08)


def test_working_days_are_not_taken_for_weekends(two_weeks: State) -> None:
    """The days after a weekend are expected as those before it."""
    at = THURSDAY + rhythm.DAY * np.array([14.5, 19.0, 20.5])
    expected = np.array([rhythm.at_time(two_weeks, at[i : i + 1])[0] for i in range(3)])
    assert expected == pytest.approx(level(at, -0.2), abs=0.08)


def test_the_first_weekend_is_uncertain_and_the_second_less() -> None:
    """Before a weekend was seen it may differ by `WEEKEND_SD`; working days are not taken for uncertain."""
    first, second = lived(1.0, 0.0), lived(10.0, 0.0)
    one_week = 7 * rhythm.DAY
    saturday, friday = np.array([SATURDAY + 43200.0]), np.array([SATURDAY - 43200.0])
    assert week.unknown(first["week"], saturday)[0] == pytest.approx(week.WEEKEND_SD**2, rel=0.01)
    assert week.unknown(first["week"], friday)[0] == 0.0
    assert week.unknown(second["week"], saturday + one_week)[0] < 0.6 * week.WEEKEND_SD**2


@pytest.mark.parametrize("trouble", [False, True], ids=["quiet", "a trouble came"])
def test_a_slide_does_not_explain_itself_by_the_week(trouble: bool) -> None:  # noqa: FBT001
    """What a slot shows is learnt when the next one is over, and not at all if a trouble came in between."""
    state = np.zeros(1, week.DTYPE)
    week.allocate(state)
    blocks = int(week.SLOT_SECONDS / BLOCK)
    for block in range(2 * blocks + 1):
        assert (state["adds"] == 0.0).all()
        at = np.array([SATURDAY + BLOCK * block])
        calm = np.array([not trouble or block != blocks + 5])
        week.learn(state, at, np.array([-0.3]), np.array([0.003]), calm)
    assert (state["adds"] < -0.2).sum() == (0 if trouble else 1)
