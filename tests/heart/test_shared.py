"""What the replicas of a group have in common, turn by turn, in plain numbers."""

from __future__ import annotations

import math
from statistics import median
from typing import TYPE_CHECKING

import numpy as np
import pytest

from monitor.core.detectors import base, level
from monitor.core.fleet import shared
from tests.heart.made_trials import START, row

if TYPE_CHECKING:
    from monitor.core.detectors.base import State

PLAN = base.DetectionPlan()
VARIANCE = 0.004


def group(*, turns: int = 130) -> State:
    """Return a group whose common level stood at 0 for so many turns."""
    state = np.zeros(1, shared.DTYPE)
    shared.allocate(state)
    for number in range(turns):
        turn(state, number, 0.1 * math.sin(1.3 * number))
    return state


def turn(state: State, number: int, score: float) -> shared.News:
    """Take in the common level of one turn."""
    began, end = row(START + 15.0 * number), row(START + 15.0 * (number + 1))
    (news,) = shared.step(PLAN, state, row(score), row(VARIANCE), began, end)
    return news


def told(state: State, first: int, scores: list[float]) -> list[shared.News]:
    """Take in turns and return what each makes of the trouble."""
    return [turn(state, first + number, score) for number, score in enumerate(scores)]


SCORES = [-0.1, 0.2, 0.1, 3.0, -0.9, 0.0, 0.3, 0.1]
VARIANCES = [0.01, 0.02, 0.01, 0.01, 0.04, 0.02, 0.01, 0.05]


@pytest.mark.parametrize("ill", [(), (4,), (0, 1, 2, 4)], ids=["all healthy", "one ill", "half of them ill"])
def test_what_is_common_and_what_is_apart(ill: tuple[int, ...]) -> None:
    """Weighted means of scores cut at two errors from the median, without the ill where more than three are well."""
    group_of_row = np.array([0] * 5 + [1] * 3)
    healthy = np.array([place not in ill for place in range(8)])
    parts = shared.parts(np.array(SCORES), np.array(VARIANCES), group_of_row, healthy)
    for which, places in enumerate((range(5), range(5, 8))):
        middle = median(SCORES[place] for place in places)
        reach = [2 * math.sqrt(VARIANCES[place]) for place in places]
        bounded = [
            min(max(SCORES[place], middle - far), middle + far)
            for place, far in zip(places, reach, strict=True)
        ]
        well = sum(place not in ill for place in places)
        weight = [(place not in ill or well <= 3) / VARIANCES[place] for place in places]
        total = sum(w * s for w, s in zip(weight, bounded, strict=True))
        assert parts.common[which] == pytest.approx(total / sum(weight))
        assert parts.common_variance[which] == pytest.approx(1 / sum(weight))
        for index, place in enumerate(places):
            rest = sum(weight) - weight[index]
            others = (total - weight[index] * bounded[index]) / rest
            assert parts.apart[place] == pytest.approx(SCORES[place] - others)
            assert parts.apart_variance[place] == pytest.approx(VARIANCES[place] + 1 / rest)


def test_a_fall_opens_from_where_the_level_stood() -> None:
    """It opens within turns, dated to its begin, of the size that was seen, from the local level."""
    state = group()
    news = told(state, 130, [-0.8] * 8)
    assert news.index("opens") < 7
    assert state["change_at"][0] == START + 15.0 * 130
    assert state["origin"][0] == pytest.approx(0.0, abs=0.02)
    assert state["shift"][0] == pytest.approx(-0.8, abs=0.25)
    assert state["open"][0] == 1.0


def test_it_is_on_duty_after_half_an_hour() -> None:
    """A fall before is told when turns were seen for 1800 seconds."""
    state = group(turns=100)
    assert told(state, 100, [-1.5] * 25).index("opens") == 19


def test_sixty_turns_are_needed_however_long_they_are() -> None:
    """Turns of five minutes: a fall before is told with the sixtieth."""
    state = np.zeros(1, shared.DTYPE)
    shared.allocate(state)
    news = []
    for number in range(65):
        score = row(-1.5 if number >= 48 else 0.02 * math.sin(number))
        end = row(START + 300.0 * (number + 1))
        news += shared.step(PLAN, state, score, row(VARIANCE), end - 300.0, end)
    assert news.index("opens") == 59


def opened(shift: float = -0.8) -> State:
    """Return a group whose trouble of that size is open, from a level of 0.1, for no turn yet."""
    state = group()
    state["level"]["local"] = 0.1
    shared._open(state, 0.1 + 3 * shift, START)
    state["shift"] = state["mean"] = shift
    return state


def test_a_fall_far_below_the_likely_size_is_of_the_levels_size() -> None:
    """Where the level is more than twice as far down as the evidence says, the level is believed."""
    for far, shift in ((-2.5, -2.5), (-1.0, -0.8), (-1.7, -1.7), (-1.5, -0.8)):
        state = group()
        state["level"]["local"], state["level"]["age"] = 0.1, -1
        state["level"]["age"][0, 0], state["level"]["pull"][0, 0], state["level"]["power"][0, 0] = (
            3,
            -80.0,
            100.0,
        )
        shared._open(state, 0.1 + far, START)
        assert state["shift"][0] == pytest.approx(shift, rel=1e-5)
        assert (state["level"]["age"] == -1).all()


def test_it_closes_when_the_mean_is_back() -> None:
    """Not before eight turns, and when the mean of the last forty is nearer than 0.35 of the fall."""
    state, mean, news = opened(), -0.8, []
    for _ in range(60):
        mean = 0.975 * mean + 0.025 * 0.05
        news.append(shared._go_on(state, 0.15, 0.0, fell=False))
        if mean > 0.35 * -0.8:
            break
        assert state["mean"][0] == pytest.approx(mean)
    assert news == [""] * (len(news) - 1) + ["closes"]
    assert state["open"][0] == 0.0
    quick = opened()
    quick["mean"] = 0.0
    assert [shared._go_on(quick, 0.1, 0.0, fell=False) for _ in range(8)] == [""] * 7 + ["closes"]


@pytest.mark.parametrize(("rise", "closes"), [(0.749, False), (0.75, True)])
@pytest.mark.parametrize(("size", "enough"), [(0.39, False), (0.41, True)])
def test_a_step_back_of_half_its_size_closes(rise: float, size: float, closes: bool, enough: bool) -> None:  # noqa: FBT001
    """A rise that has three quarters of its limit and more than half of the size of the fall."""
    state = opened()
    state["open_periods"] = 7.0
    own = state["level"]
    own["age"], own["pull"], own["power"] = -1, 0.0, 1.0
    own["age"][0, 0], own["pull"][0, 0] = 3, size
    news = shared._go_on(state, -0.7, rise, fell=False)
    assert (news == "closes") == (closes and enough)


@pytest.mark.parametrize(
    ("fallen", "variance", "closes"), [(-4.0, 0.004, True), (-1.4, 0.004, False), (-4.0, 0.2, False)]
)
def test_a_collapse_is_over_after_a_minute_back(fallen: float, variance: float, closes: bool) -> None:  # noqa: FBT001
    """Four turns in a row end a fall that neither wander nor errors explain; the mean would need ten minutes."""
    state = opened(fallen)
    state["open_periods"] = 20.0
    level.restart(state["level"])
    news = []
    for score in [0.1, 0.1, 0.1, fallen, 0.1, 0.0, 0.1, 0.2]:
        shared._note_return(state, score, variance)
        news.append(shared._go_on(state, score, 0.0, fell=False))
    assert news == [""] * 7 + ["closes" if closes else ""]


def test_a_model_that_collapsed_is_over_within_two_minutes() -> None:
    """20 turns at the bottom, then back: through the whole step, where `level` cuts what is so far off."""
    state = group()
    assert "opens" in told(state, 130, [-4.0] * 20)
    assert "closes" in told(state, 150, [0.0, 0.1] * 4)


@pytest.mark.parametrize(
    ("mean", "turns", "fell", "grows"),
    [
        (-1.05, 8, False, True),
        (-1.03, 8, False, False),
        (-1.05, 120, False, False),
        (-1.05, 120, True, True),
        (-1.05, 119, False, True),
    ],
)
def test_it_grows_when_the_mean_sinks(mean: float, turns: int, fell: bool, grows: bool) -> None:  # noqa: FBT001
    """By 1.3 times its size; after 120 turns only by another fall, as it may be the time of day."""
    state = opened()
    level.restart(state["level"])
    state["mean"], state["open_periods"] = mean, turns
    news = shared._go_on(state, 0.1 + mean, 0.0, fell=fell)
    assert (news == "grows") == grows
    assert state["shift"][0] == pytest.approx(mean if grows else -0.8)


def test_while_a_trouble_is_open_nothing_is_learnt() -> None:
    """The local level stays where it was, and follows calm turns again after the end."""
    state = opened()
    told(state, 130, [-0.7] * 5)
    assert state["level"]["local"][0] == pytest.approx(0.1)
    shared.end(state)
    told(state, 135, [0.0] * 20)
    assert state["level"]["local"][0] < 0.1
