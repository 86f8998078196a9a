"""A draft that is dead or silent in absolute terms, interval by interval, against the formula of the docstring."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pytest

from monitor.core.detectors import base, floor
from tests.heart import made_trials
from tests.heart.made_trials import SECONDS, START

if TYPE_CHECKING:
    from monitor.core.detectors.base import State

PLAN = base.DetectionPlan()
FLOOR = PLAN.floor_mal - 1.0


def fresh() -> State:
    """Return a stream that was never seen."""
    state = np.zeros(1, floor.DTYPE)
    floor.allocate(state)
    return state


def poisson_nats(seen: float, expected: float) -> float:
    """Return the likelihood ratio of a Poisson count."""
    return (seen * math.log(seen / expected) if seen else 0.0) - seen + expected


def test_the_score_is_the_likelihood_ratio_of_what_was_accepted() -> None:
    """Over thirty intervals with fading memory, (A ln(A / fD) - A + fD) over three times seven nats."""
    state, drafts, kept = fresh(), 0.0, 0.0
    for number in range(30):
        some = 200.0 + 10 * number
        token = 3.0 + number % 4
        fade = math.exp(-some / floor.MEMORY_DRAFTS)
        drafts, kept = drafts * fade + some, kept * fade + token
        score = floor.step(PLAN, state, made_trials.trials(number, some, [token]), np.zeros(1, bool))
        assert score[0] == pytest.approx(poisson_nats(kept, FLOOR * drafts) / 21.0, rel=1e-9)
        assert state["since"][0] == START - SECONDS
    assert score[0] > 1.0


def test_a_draft_above_the_floor_scores_nothing() -> None:
    """Accepted tokens at and above the floor are no evidence, and the begin moves on."""
    state = fresh()
    for number in range(5):
        score = floor.step(PLAN, state, made_trials.trials(number, 100.0, [11.0]), np.zeros(1, bool))
        assert score[0] == 0.0
        assert state["since"][0] == START + SECONDS * (number - 1)


@pytest.mark.parametrize(("drafts", "dead"), [(39.0, False), (40.0, True)])
def test_nothing_accepted_of_the_first_forty_is_dead(drafts: float, dead: bool) -> None:  # noqa: FBT001
    """None of forty first drafts is dead at once; none of thirty-nine is not, nor is it after a first token."""
    score = floor.step(PLAN, fresh(), made_trials.trials(0, drafts, [0.0]), np.zeros(1, bool))
    assert bool(score[0] >= 1.0) == dead
    state = fresh()
    floor.step(PLAN, state, made_trials.trials(0, 10.0, [9.0]), np.zeros(1, bool))
    assert floor.step(PLAN, state, made_trials.trials(1, 100.0, [0.0]), np.zeros(1, bool))[0] < 1.0


def test_a_healthy_stream_needs_two_intervals() -> None:
    """Where the baseline is healthy one interval scores half at most, two in a row all, and none between keep it."""
    state, healthy = fresh(), np.ones(1, bool)
    assert floor.step(PLAN, state, made_trials.trials(0, 5000.0, [0.0]), healthy)[0] == pytest.approx(0.495)
    assert floor.step(PLAN, state, made_trials.trials(1, 0.0, [0.0]), healthy)[0] == pytest.approx(0.495)
    assert state["strikes"][0] == 1.0
    assert floor.step(PLAN, state, made_trials.trials(2, 5000.0, [0.0]), healthy)[0] > 1.0
    floor.step(PLAN, state, made_trials.trials(3, 100.0, [300.0]), healthy)
    assert state["strikes"][0] == 0.0


def test_a_restart_forgets_the_drafts() -> None:
    """What counts drafts begins at zero; what was ever accepted stays."""
    state = fresh()
    for name in floor.DTYPE.names or ():
        state[name] = 5.0
    floor.restart(state)
    gone = [name for name in floor.DTYPE.names or () if state[name][0] == 0.0]
    assert gone == ["drafts", "accepted", "strikes", "above_drafts", "above_accepted"]


def test_alive_again_is_twice_the_floor() -> None:
    """The likelihood ratio against twice the floor; low intervals fade what was gathered within 64 drafts."""
    state, drafts, kept = fresh(), 0.0, 0.0
    for number, token in enumerate([30.0, 5.0, 30.0, 40.0, 20.0, 35.0, 30.0]):
        fade = 1.0 if token > 20.0 else math.exp(-100.0 / 64.0)
        drafts, kept = drafts * fade + 100.0, kept * fade + token
        score = floor.alive(PLAN, state, made_trials.trials(number, 100.0, [token]))
        expected = poisson_nats(kept, 2 * FLOOR * drafts) / 21.0 if kept > 2 * FLOOR * drafts else 0.0
        assert score[0] == pytest.approx(expected, rel=1e-9)


def _silence(state: State, number: int, drafts: float, tokens: float) -> float:
    return float(
        floor.silence(PLAN, state, made_trials.trials(number, drafts, [drafts]), made_trials.row(tokens))[0]
    )


def test_silence_is_measured_from_its_begin() -> None:
    """Tokens without a draft, after drafts were seen: the seconds since it began over those that are allowed."""
    state = fresh()
    assert _silence(state, 0, 0.0, 50.0) == 0.0
    assert np.isnan(state["silent_since"][0])
    _silence(state, 1, 10.0, 50.0)
    scores = [_silence(state, number, 0.0, 50.0) for number in range(2, 11)]
    assert scores == pytest.approx([SECONDS * times / PLAN.silent_seconds for times in range(1, 10)])
    assert _silence(state, 11, 0.0, 0.0) == 0.0  # idle: neither silent nor over
    assert _silence(state, 12, 0.0, 50.0) == pytest.approx(SECONDS * 11 / PLAN.silent_seconds)
    assert _silence(state, 13, 5.0, 50.0) == 0.0
    assert np.isnan(state["silent_since"][0])


def test_unknown_drafts_are_no_silence_and_no_end_of_it() -> None:
    """Where drafts are unknown nothing is told either way."""
    state = fresh()
    _silence(state, 0, 10.0, 50.0)
    _silence(state, 1, 0.0, 50.0)
    unknown = made_trials.trials(2, 0.0, [0.0])
    unknown.proposed[:] = np.nan
    assert floor.silence(PLAN, state, unknown, made_trials.row(50.0))[0] == 0.0
    assert state["silent_since"][0] == START


@pytest.mark.parametrize(
    ("drafts", "kept", "dead"),
    [(159.0, 1.0, False), (160.0, 1.0, True), (200.0, 2.0, False), (160.0, 1.5, False)],
)
def test_one_accepted_of_the_first_hundred_and_sixty_is_dead(drafts: float, kept: float, dead: bool) -> None:  # noqa: FBT001
    """One of 160 first drafts is dead at once; one of 159 is not, nor are two of more."""
    score = floor.step(PLAN, fresh(), made_trials.trials(0, drafts, [kept]), np.zeros(1, bool))
    assert bool(score[0] >= 1.0) == dead


def test_the_dead_are_proven_by_time_too() -> None:
    """An interval of one draft is a strike like any other, one of no drafts is none; ten drafts of none are no proof."""
    state, healthy = fresh(), np.zeros(1, bool)
    floor.step(PLAN, state, made_trials.trials(0, 1.0, [0.0]), healthy)
    assert state["strikes"][0] == 1.0
    score = floor.step(PLAN, state, made_trials.trials(1, 9.0, [0.0]), healthy)
    assert score[0] == pytest.approx(FLOOR * (1.0 + 9.0) / 21.0, rel=1e-3)
    assert state["strikes"][0] == 2.0


def test_one_token_without_a_draft_is_silence() -> None:
    """Half a token flows as a thousand do; half a draft is one that was made."""
    state = fresh()
    _silence(state, 0, 0.5, 50.0)
    assert _silence(state, 1, 0.0, 0.5) == pytest.approx(SECONDS / PLAN.silent_seconds)
    assert _silence(state, 2, 0.5, 0.5) == 0.0
    assert np.isnan(state["silent_since"][0])
