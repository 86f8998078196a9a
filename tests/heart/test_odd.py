"""The odd one of a group, turn by turn, against the formulas of the docstring in plain numbers."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pytest

from monitor.core.detectors import base
from monitor.core.fleet import odd
from tests.heart.made_trials import START

if TYPE_CHECKING:
    from collections.abc import Callable

    from monitor.core.detectors.base import State

PLAN = base.DetectionPlan()
LIMIT = math.log(30 * 86400 / 15) + 0.45
SIZES = (0.13, 0.25, 0.5, 1.0)
MEMORIES = (1.0, 4.0, 20.0)
WEIGHTS = (0.40, 0.24, 0.03)
GAINS = (1.0, 1 - math.exp(-1 / 4), 1 - math.exp(-1 / 20))


def group(size: int, *, seen: float = 130.0) -> tuple[State, State]:
    """Return replicas of one group that have been compared for so many turns, and what is known of the group."""
    state, learnt = np.zeros(size, odd.DTYPE), np.zeros(1, odd.LEARNT_DTYPE)
    odd.allocate(state)
    odd.allocate_learnt(learnt)
    state["seen"] = seen
    return state, learnt


def turn(
    state: State,
    learnt: State,
    number: int,
    levels: list[float],
    variance: float,
    *,
    troubled: tuple[int, ...] = (),
) -> list[float]:
    """Take in one turn and return the scores of the replicas."""
    size = len(levels)
    undisturbed = np.array([place not in troubled for place in range(size)])
    apart = odd.Apart(
        np.array(levels), np.full(size, variance), np.full(size, START + 15.0 * number), undisturbed
    )
    odd.step(PLAN, state, learnt, np.zeros(size, np.int64), apart)
    result: list[float] = state["score"].tolist()
    return result


@dataclass
class Sum:
    """What speaks for a fall of one size."""

    value: float = 0.0
    age: int = 0
    since: float = 0.0


@dataclass
class Replica:
    """One replica of the same comparison, written as the docstring has it."""

    seen: float = 130.0
    offset: float = 0.0
    means: list[float] = field(default_factory=lambda: [0.0] * 3)
    spread: float = 1.0
    peak: float = 0.0
    sums: list[Sum] = field(default_factory=lambda: [Sum() for _ in SIZES])


@dataclass
class Reference:
    """The same comparison of one group; weights are those at first, for sixty turns."""

    replicas: list[Replica]
    gram: list[list[float]] = field(
        default_factory=lambda: [[500.0 * (i == j) for j in range(3)] for i in range(3)]
    )
    cross: list[float] = field(default_factory=lambda: [500.0 * weight for weight in WEIGHTS])
    excursions: float = 20.0
    excess: float = 20.0

    def step(
        self, number: int, levels: list[float], variance: float, troubled: tuple[int, ...]
    ) -> list[float]:
        """Return the score of each replica."""
        tail = min(max(self.excess / self.excursions, 1.0), 2.5)
        reached = 4.0 + (LIMIT - 4.0) * (1 + 2.0 * (tail - 1))
        told = []
        ended: list[float] = []
        learning: list[tuple[list[float], float]] = []
        for place, (replica, level) in enumerate(zip(self.replicas, levels, strict=True)):
            score, over, calm = self._judge(
                replica, number, level, variance, reached, quiet=place not in troubled
            )
            told.append(score)
            ended += over
            learning += calm
        self.excursions += len(ended)
        self.excess += sum(ended)
        fade = 1 - len(learning) / 20_000
        for i in range(3):
            for j in range(3):
                new = sum(means[i] * means[j] for means, _ in learning) + 500 * (1 - fade) * (i == j)
                self.gram[i][j] = self.gram[i][j] * fade + new
            new = sum(means[i] * z for means, z in learning) + 500 * (1 - fade) * WEIGHTS[i]
            self.cross[i] = self.cross[i] * fade + new
        return told

    def _judge(
        self, replica: Replica, number: int, level: float, variance: float, reached: float, *, quiet: bool
    ) -> tuple[float, list[float], list[tuple[list[float], float]]]:
        error = math.sqrt(variance)
        deviation = level - replica.offset
        predicted = sum(mean * weight for mean, weight in zip(replica.means, WEIGHTS, strict=True))
        surprise = deviation / error - predicted
        left = 1 - sum(WEIGHTS)
        doubt = math.sqrt(replica.spread / min(replica.seen + 60, 3840)) / left
        share = base.bucket_share(np.array([variance]), np.array([deviation]))
        most, scores, heights = LIMIT * float(share[0]), [], []
        for size, one in zip(SIZES, replica.sums, strict=True):
            signal = size / error
            _grow(one, replica.spread, signal, surprise, doubt, most, number)
            one.value *= quiet * (replica.seen >= 120)
            worth = math.log(min(max((signal * left) ** 2 / replica.spread, 0.02), 1.0))
            scores.append(one.value / max(reached + worth, 3.0))
            heights.append((one.value - worth) * (one.value > 0))
        height = max(heights)
        over = [min(replica.peak - 4, 12.0)] if height < 1 and replica.peak > 4 else []
        replica.peak = 0.0 if height < 1 else max(replica.peak, height)
        calm = quiet and max(scores) < 0.55
        known = ([*replica.means], min(max(deviation / error, -4.0), 4.0))
        replica.seen = min(replica.seen + calm, 3000)
        before = replica.spread
        if calm:
            sample = min(surprise**2, 16 * before)
            replica.spread = max(before + (sample - before) / (60 + replica.seen), 0.05)
            replica.offset += deviation / max(min(replica.seen, 1920), 1.0)
        reach = 4 * math.sqrt(replica.spread)
        followed = predicted + min(max(surprise, -reach), reach)
        for place, gain in enumerate(GAINS):
            replica.means[place] += gain * (followed - replica.means[place])
        return max(scores), over, [known] if calm else []


def _grow(
    one: Sum, spread: float, signal: float, surprise: float, doubt: float, most: float, number: int
) -> None:
    """Let the sum of one size go on, or begin anew where that pays more."""
    age = min(one.age, 127)
    lately = 1 - sum(w * (1 - (1 - gain) ** age) for w, gain in zip(WEIGHTS, GAINS, strict=True))
    first = min((-signal * (surprise + doubt) - signal**2 / 2) / spread, most)
    later = (-signal * lately * (surprise + doubt * lately) - (signal * lately) ** 2 / 2) / spread
    longer = one.value + min(max(later, -0.3 * LIMIT), most)
    new = max(longer, first, 0.0)
    if new > 0 and (one.value <= 0 or first > longer):
        one.age, one.since = 1, START + 15.0 * number
    else:
        one.age = (one.age + 1) * (new > 0)
    one.value = new


def swing(number: int, place: int) -> float:
    """Return how far a replica is apart while nothing is wrong."""
    return 0.06 * math.sin(0.9 * number + 2 * place) + 0.03 * math.sin(0.23 * number + place)


SEQUENCES: dict[str, tuple[float, float, Callable[[int], float]]] = {
    "a fall": (0.01, 130.0, lambda n: -0.4 * (n >= 12)),
    "a small fall": (0.003, 2000.0, lambda n: -0.15 * (n >= 6)),
    "few requests": (0.2, 130.0, lambda n: -1.5 * (n >= 8)),
    "far at once": (0.01, 130.0, lambda n: -3.0 * (n >= 10)),
    "excursions": (0.01, 130.0, lambda n: -0.45 * (n in {6, 7, 16, 17, 24, 25})),
    "higher": (0.01, 130.0, lambda n: 0.5 * (n >= 10)),
    "not warm": (0.01, 110.0, lambda n: -0.4 * (n >= 5)),
}


@pytest.mark.parametrize(("variance", "seen", "fall"), SEQUENCES.values(), ids=SEQUENCES)
def test_the_scores_are_those_of_the_docstring(
    variance: float, seen: float, fall: Callable[[int], float]
) -> None:
    """Sums of all sizes, limits, excursions and what is learnt are those of the formulas, turn by turn."""
    state, learnt = group(3, seen=seen)
    own = Reference([Replica(seen) for _ in range(3)])
    for number in range(30):
        levels = [swing(number, place) + fall(number) * (place == 1) for place in range(3)]
        troubled = (2,) if 4 <= number < 8 else ()
        told = turn(state, learnt, number, levels, variance, troubled=troubled)
        assert told == pytest.approx(own.step(number, levels, variance, troubled), rel=1e-6, abs=1e-9)
    for place, replica in enumerate(own.replicas):
        assert state["offset"][place] == pytest.approx(replica.offset)
        assert state["means"][place] == pytest.approx(replica.means)
        assert state["spread"][place] == pytest.approx(replica.spread)
        assert state["since"][place] == pytest.approx([each.since for each in replica.sums])
    assert learnt["gram"][0] == pytest.approx(np.array(own.gram))
    assert learnt["cross"][0] == pytest.approx(own.cross)
    assert (learnt["excursions"][0], learnt["excess"][0]) == (own.excursions, pytest.approx(own.excess))


def test_weights_are_solved_every_sixty_turns() -> None:
    """The ridge regression of all replicas of the group."""
    state, learnt = group(3)
    own = Reference([Replica() for _ in range(3)])
    for number in range(60):
        assert learnt["weights"][0] == pytest.approx(WEIGHTS)
        levels = [2 * swing(number, place) for place in range(3)]
        turn(state, learnt, number, levels, 0.01)
        own.step(number, levels, 0.01, ())
    assert learnt["weights"][0] == pytest.approx(np.linalg.solve(own.gram, own.cross))


def fallen() -> tuple[State, State]:
    """Return a group whose second replica fell by half a logit with turn 10, five turns ago."""
    state, learnt = group(3)
    for number in range(15):
        turn(
            state,
            learnt,
            number,
            [swing(number, place) / 4 - 0.5 * (number >= 10) * (place == 1) for place in range(3)],
            0.01,
        )
    return state, learnt


def test_size_and_begin_are_those_of_the_best_sum() -> None:
    """The size is Σ g e ÷ (Σ g² + 4), below 0; the begin that of the size that scores highest."""
    state, _ = fallen()
    assert state["score"][1] > 1.0
    assert odd.since(state, 1) == START + 15.0 * 10
    best = int(state["best"][1])
    pull, power = float(state["pull"][1, best]), float(state["power"][1, best])
    assert odd.shift(state, 1) == pytest.approx(-pull / (power + 4.0))
    assert -0.6 < odd.shift(state, 1) < -0.35
    state["pull"] *= -1.0
    assert odd.shift(state, 1) == 0.0


def test_named_until_level_with_the_others() -> None:
    """Who was named begins anew, and is over when seven and a half nats speak for being level with the others."""
    state, learnt = fallen()
    odd.name(state, 1, -0.5)
    assert (state["named"][1], state["score"][1], state["peak"][1]) == (-0.5, 0.0, 0.0)
    assert not state["sums"][1].any()
    for number in range(15, 25):
        turn(state, learnt, number, [0.0, -0.5, 0.0], 0.01, troubled=(1,))
    assert not odd.over(state, 1)
    told = []
    for number in range(25, 35):
        turn(state, learnt, number, [0.0, 0.0, 0.0], 0.01, troubled=(1,))
        told.append(odd.over(state, 1))
    assert told.index(True) in range(1, 5)
    turn(state, learnt, 35, [0.0, 0.0, 0.0], 0.01)
    assert state["named"][1] == 0.0


def test_a_silence_begins_anew() -> None:
    """More than ten minutes without news: means and sums are none of the present."""
    for pause, kept in ((40, True), (41, False)):
        state, learnt = fallen()
        turn(state, learnt, 14 + pause, [0.0, -0.5, 0.0], 0.01)
        assert (odd.since(state, 1) == START + 15.0 * 10) == kept


def test_a_restart_forgets_sums_alone() -> None:
    """What was learnt of the noise stays."""
    state, _ = fallen()
    spread, means = state["spread"].copy(), state["means"].copy()
    odd.restart(state)
    assert not any(state[name].any() for name in ("sums", "age", "score", "peak"))
    assert (state["spread"] == spread).all()
    assert (state["means"] == means).all()
