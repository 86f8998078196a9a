"""A step in the level, bucket by bucket, against the formulas of the docstring in plain numbers."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pytest

from monitor.core.detectors import base, level
from monitor.core.detectors.measures import rhythm
from tests.heart.made_trials import START, row

if TYPE_CHECKING:
    from monitor.core.detectors.base import Bucket, State, Verdict

PLAN = base.DetectionPlan()
NATS = math.log(30 * 86400 / 15) - 2.0
MEMORIES = (1.0, 3.0, 10.0, 40.0, 160.0, 640.0)
WEIGHTS = (0.30, 0.20, 0.12, 0.12, 0.10, 0.05)
GAINS = (1.0, *(1 - math.exp(-1 / memory) for memory in MEMORIES[1:]))
AGES = sorted({round(600 ** (place / 39)) - 1 for place in range(40)})
"""Ages at which what a step leaves is tabled: forty, ever further apart."""


def bucket(
    number: int, score: float, variance: float, *, age: float = 1e6, began: float | None = None
) -> Bucket:
    """Return one full bucket of 15 s whose level stands there."""
    at = row(START + 15.0 * number)
    variances = np.full((1, base.POSITIONS), variance)
    scores = np.full((1, base.POSITIONS), score)
    start = at - 15.0 if began is None else row(began)
    return base.Bucket(
        at, start, row(age), scores, 1 / variances, variances, np.ones((1, base.POSITIONS), bool)
    )


def fresh(*, doubt: float = 0.0) -> State:
    """Return a stream that was never seen; nothing is doubted of its begin unless it is said."""
    state = np.zeros(1, level.DTYPE)
    level.allocate(state)
    state["doubt"] = doubt
    return state


def judged(state: State, seen: Bucket, *, enabled: bool = True, learning: bool = True) -> Verdict:
    """Return the verdict on one bucket."""
    return level.step(PLAN, state, seen, np.array([enabled]), np.array([learning]))


@dataclass
class Candidate:
    """A begin that is thought possible."""

    born: int
    age: int = 0
    pull: float = 0.0
    power: float = 0.0


@dataclass
class Reference:
    """The same detector for one stream, written as the docstring has it."""

    variance: float
    age: float = 1e6
    doubt: float = 0.0
    resumed: int = 0
    means: list[float] = field(default_factory=lambda: [0.0] * 6)
    weights: list[float] = field(default_factory=lambda: list(WEIGHTS))
    gram: list[list[float]] = field(
        default_factory=lambda: [[80.0 * (i == j) for j in range(6)] for i in range(6)]
    )
    cross: list[float] = field(default_factory=lambda: [80.0 * weight for weight in WEIGHTS])
    spread: float = 1.0
    learnt: float = 0.0
    candidates: list[Candidate] = field(default_factory=list)
    peaks: list[float] = field(default_factory=lambda: [0.0, 0.0])
    excursions: list[float] = field(default_factory=lambda: [15.0, 15.0])
    excess: list[float] = field(default_factory=lambda: [15.0, 15.0])

    def step(self, number: int, score: float) -> tuple[float, float, int, int]:
        """Return the scores of fall and rise, and with which bucket each began (-1: with none)."""
        self.resumed += 1
        settled = self.resumed > 8
        root, sigma = math.sqrt(self.variance), math.sqrt(self.spread)
        scaled = score / root
        predicted = sum(mean * weight for mean, weight in zip(self.means, self.weights, strict=True))
        surprise = scaled - predicted
        tails = [
            min(max(more / many, 1.0), 1.6) for more, many in zip(self.excess, self.excursions, strict=True)
        ]
        limits = [2 + (NATS - 2) * tail for tail in tails]
        far = score < base.FAR_DOWN
        share = min(max((0.018 if far else 0.014) / self.variance, 0.07 if far else 0.05), base.LARGEST_SHARE)
        cap = math.sqrt(2 * min(limits) * share) + 0.02 + 2 * self.doubt / (root * sigma)
        self._weigh(number, min(max(surprise / sigma, -cap), cap), root * sigma, settled=settled)
        band = 0.04 * (1 + 3 * math.exp(-self.age / (5 * 3600))) + 2 * self.doubt
        self.doubt *= 1 - 1 / 240
        best = [(0.0, -1), (0.0, -1)]
        for each in self.candidates:
            beyond = max(abs(each.pull) - band * each.power, 0.0)
            evidence = beyond**2 / (2 * max(each.power, 1e-9))
            side = 0 if each.pull < 0 else 1
            best[side] = max(best[side], (evidence, each.born), key=lambda found: found[0])
        ratios = [evidence / limit for (evidence, _), limit in zip(best, limits, strict=True)]
        self._excursions([evidence for evidence, _ in best], settled=settled)
        self._learn(scaled, predicted, surprise, calm=settled and max(ratios) < 0.5)
        if (number + 1) % 60 == 0:
            self.weights = np.linalg.solve(self.gram, self.cross).tolist()
        return ratios[0] * settled, ratios[1] * settled, best[0][1], best[1][1]

    def _weigh(self, number: int, surprise: float, scale: float, *, settled: bool) -> None:
        for each in self.candidates:
            each.age += 1
        generation = 5 if number == 0 else min((number & -number).bit_length() - 1, 5)
        kept = [each for each in self.candidates if each.age < 16 << min(_generation(each.born), 4)]
        self.candidates = [*kept, Candidate(number)] if settled else []
        assert generation == _generation(number)
        for each in self.candidates:
            tabled = next(age for age in AGES if age >= each.age)
            taken = [1 - (1 - gain) ** tabled for gain in GAINS]
            left = 1 - sum(weight * share for weight, share in zip(self.weights, taken, strict=True))
            each.pull += left / scale * surprise
            each.power += (left / scale) ** 2

    def _excursions(self, heights: list[float], *, settled: bool) -> None:
        for side, height in enumerate(heights):
            over = height < 1.0 and self.peaks[side] > 2.0 and settled
            self.excursions[side] += over
            self.excess[side] += min(self.peaks[side] - 2.0, 12.0) * over
            self.peaks[side] = 0.0 if height < 1.0 else max(self.peaks[side], height)

    def _learn(self, scaled: float, predicted: float, surprise: float, *, calm: bool) -> None:
        reach = 4 * math.sqrt(self.spread)
        followed = predicted + min(max(surprise, -reach), reach) if self.resumed > 8 else scaled
        fade = 1 - calm / 6000
        for i in range(6):
            for j in range(6):
                new = calm * self.means[i] * self.means[j] + 80 * (1 - fade) * (i == j)
                self.gram[i][j] = self.gram[i][j] * fade + new
            self.cross[i] = (
                self.cross[i] * fade + calm * self.means[i] * followed + 80 * (1 - fade) * WEIGHTS[i]
            )
        self.learnt = min(self.learnt + calm, 2000)
        change = min(surprise**2, 12 * self.spread) - self.spread
        self.spread = max(self.spread + calm * change / (60 + self.learnt), 0.02)
        for place, gain in enumerate(GAINS):
            self.means[place] += max(gain, 1 / self.resumed) * (followed - self.means[place])


def _generation(number: int) -> int:
    return 5 if number == 0 else min((number & -number).bit_length() - 1, 5)


def swing(number: int) -> float:
    """Return a wander that repeats itself."""
    return 0.08 * math.sin(0.9 * number) + 0.05 * math.sin(0.17 * number + 1)


SEQUENCES: dict[str, tuple[float, float, float, list[float]]] = {
    "a small fall": (0.01, 1e6, 0.0, [swing(n) - 0.4 * (n >= 20) for n in range(31)]),
    "a rise": (0.01, 1e6, 0.0, [swing(n) + 0.5 * (n >= 18) for n in range(31)]),
    "few requests": (0.2, 1e6, 0.0, [3 * swing(n) - 1.2 * (n >= 16) for n in range(31)]),
    "far down": (0.02, 1e6, 0.0, [swing(n) - 2.5 * (n >= 20) for n in range(31)]),
    "young": (0.01, 3600.0, 0.02, [swing(n) - 0.4 * (n >= 20) for n in range(31)]),
    "doubted": (0.005, 1e6, 0.1, [swing(n) - 0.3 * (n >= 15) for n in range(31)]),
    "excursions": (0.01, 1e6, 0.0, [swing(n) - 0.5 * (n in (12, 13, 20, 21)) for n in range(31)]),
}


@pytest.mark.parametrize(("variance", "age", "doubt", "moves"), SEQUENCES.values(), ids=SEQUENCES)
def test_the_scores_are_those_of_the_docstring(
    variance: float, age: float, doubt: float, moves: list[float]
) -> None:
    """Surprise, candidates, evidence, limits and what is learnt are those of the formulas, bucket by bucket."""
    state, own = fresh(doubt=doubt), Reference(variance, age, doubt)
    for number, move in enumerate(moves):
        verdict = judged(state, bucket(number, move, variance, age=age))
        down, up, fell, rose = own.step(number, move)
        assert (verdict.down[0], verdict.up[0]) == (
            pytest.approx(down, rel=2e-3),
            pytest.approx(up, rel=2e-3),
        )
        assert bool(verdict.calm[0]) == (max(down, up) < 0.5)
        if down > 0.05:
            assert verdict.down_since[0] == pytest.approx(START + 15.0 * (fell - 1), abs=0.01)
        if up > 0.05:
            assert verdict.up_since[0] == pytest.approx(START + 15.0 * (rose - 1), abs=0.01)
    assert state["means"][0] == pytest.approx(own.means, rel=1e-3, abs=1e-5)
    assert state["spread"][0] == pytest.approx(own.spread, rel=1e-3)
    assert state["gram"][0] == pytest.approx(np.array(own.gram), rel=1e-3, abs=1e-4)
    assert state["cross"][0] == pytest.approx(own.cross, rel=1e-3, abs=1e-4)
    assert state["excursions"][0].tolist() == own.excursions
    assert state["excess"][0] == pytest.approx(own.excess, rel=1e-3)


def test_weights_are_solved_each_quarter_of_an_hour() -> None:
    """After sixty buckets the weights are those of the ridge regression, and what a step leaves follows them."""
    state, own = fresh(), Reference(0.01)
    for number in range(60):
        before = state["weights"].copy()
        judged(state, bucket(number, 2 * swing(number), 0.01))
        own.step(number, 2 * swing(number))
    assert before[0] == pytest.approx(WEIGHTS)
    assert state["weights"][0] == pytest.approx(own.weights, rel=5e-3, abs=1e-4)
    oldest = 1 - sum(w * (1 - (1 - gain) ** 599) for w, gain in zip(own.weights, GAINS, strict=True))
    assert state["signature"][0, -1] == pytest.approx(oldest, rel=5e-3)
    assert state["signature"][0, 0] == 1.0


def test_a_silence_begins_anew() -> None:
    """More than half an hour without traffic: eight buckets are not judged, and means begin as plain means."""
    for pause, judged_at_once in ((1800.0, True), (1801.0, False)):
        state = fresh()
        for number in range(20):
            judged(state, bucket(number, 0.0, 0.01))
        last = float(state["last_at"][0])
        fallen = [
            bucket(number, -2.0, 0.01, began=last + pause if number == 200 else None)
            for number in range(200, 206)
        ]
        told = [float(judged(state, each).down[0]) for each in fallen]
        assert (max(told) > 1.0) == judged_at_once
        assert state["resumed"][0] == (26 if judged_at_once else 6)


def test_what_is_not_enabled_is_not_told_and_what_may_not_learn_does_not() -> None:
    """Rows that are off score nothing while their evidence goes on; rows that may not learn keep their noise."""
    state = fresh()
    told = [
        judged(state, bucket(number, -0.8 * (number >= 12), 0.01), enabled=False, learning=False)
        for number in range(20)
    ]
    assert all(each.down[0] == 0.0 for each in told)
    assert not told[-1].calm[0]
    assert (state["spread"][0], state["learnt"][0]) == (1.0, 0.0)
    assert not state["peak"].any() or state["excursions"][0].tolist() == [15.0, 15.0]
    assert judged(state, bucket(20, -0.8, 0.01)).down[0] > 1.0


def fallen() -> State:
    """Return a stream whose level fell by 0.8 logits with bucket 20, six buckets ago."""
    state = fresh()
    for number in range(26):
        judged(state, bucket(number, -0.8 * (number >= 20), 0.01))
    return state


def test_the_size_and_the_begin_are_the_likeliest() -> None:
    """The size is Σ g e ÷ Σ g² of the best candidate of that sign; begins within two nats are possible."""
    state = fallen()
    assert level.estimate(state, 0, -1.0) == pytest.approx(-0.5, abs=0.3)
    assert level.estimate(state, 0, -1.0) < -0.3
    first, last = level.span(state, 0, -1.0)
    assert first <= START + 15.0 * 19 <= last
    assert last - first <= 60.0
    pull, power = state["pull"][0].astype(float), state["power"][0].astype(float)
    born, alive = state["born_at"][0].astype(float), state["age"][0] >= 0
    nats = np.where(alive, np.maximum(-pull, 0) ** 2 / (2 * np.maximum(power, 1e-9)), 0.0)
    best = int(nats.argmax())
    assert level.estimate(state, 0, -1.0) == pytest.approx(pull[best] / power[best])
    possible = born[nats >= nats.max() - 2.0]
    assert (first, last) == (state["epoch"][0] + possible.min(), state["epoch"][0] + possible.max())


def test_limits_follow_the_tail() -> None:
    """A tail twice as heavy raises the part of the limit above two nats by at most 1.6; a light one does not lower it."""
    state = fresh()
    for excess, times in ((15.0, 1.0), (18.0, 1.2), (60.0, 1.6), (1.0, 1.0)):
        state["excess"][:, 0] = excess
        assert level.limits(PLAN, state)[0].tolist() == pytest.approx([2 + (NATS - 2) * times, NATS])


def test_restart_and_rebase_forget_candidates() -> None:
    """A restart forgets candidates and peaks; another baseline also where the level stood lately; noise stays."""
    state = fallen()
    state["local"], state["local_buckets"] = -0.3, 50.0
    means = state["means"].copy()
    level.restart(state)
    assert (state["age"] == -1).all()
    assert not state["peak"].any()
    assert (state["resumed"][0], state["local"][0], state["local_buckets"][0]) == (
        0.0,
        pytest.approx(-0.3),
        50.0,
    )
    assert (state["means"] == means).all()
    level.rebase(state)
    assert (state["local"][0], state["local_buckets"][0]) == (0.0, 0.0)


def test_the_local_level_is_a_mean_of_forty_minutes() -> None:
    """Calm buckets move it, as a plain mean at first, then by one part in 160."""
    state = fresh()
    for score in (0.2, 0.4, 0.9):
        level.follow(state, row(score), np.array([True]))
    assert state["local"][0] == pytest.approx(0.5)
    level.follow(state, row(9.0), np.array([False]))
    assert (state["local"][0], state["local_buckets"][0]) == (pytest.approx(0.5), 3.0)
    state["local_buckets"] = 160.0
    level.follow(state, row(0.9), np.array([True]))
    assert (state["local"][0], state["local_buckets"][0]) == (pytest.approx(0.5 + 0.4 / 160), 160.0)


def test_what_is_inherited_is_where_the_first_bucket_is_held_against() -> None:
    """A stream that begins where others stand is judged from its first bucket on, in its own noise."""
    state = fresh()
    level.inherit(state, row(-0.4), 0.05, START - 30.0)
    assert (state["local"][0], state["local_buckets"][0]) == (pytest.approx(-0.4), 160.0)
    verdict = judged(state, bucket(0, -0.4 * sum(WEIGHTS), 0.01))
    assert verdict.down[0] == pytest.approx(0.0, abs=1e-6)
    assert state["bucket"][0] == 0
    assert state["doubt"][0] == pytest.approx(0.05 * (1 - 1 / 240))
    assert state["means"][0, 5] == pytest.approx(-4.0, rel=0.02)
    told = [float(judged(state, bucket(number, -2.4, 0.01)).down[0]) for number in range(1, 5)]
    assert max(told) > 1.0


@pytest.mark.parametrize(
    ("age", "kept", "counts"),
    [(1800.0, 40.0, True), (7200.0, 40.0, True), (7201.0, 40.0, False), (1800.0, 0.0, False)],
)
def test_a_young_stream_is_held_against_its_begin(age: float, kept: float, counts: bool) -> None:  # noqa: FBT001
    """z²/2 of the means of 10 and 40 buckets, with noise, wander and the begin's own doubt, over the limit."""
    state, variance, doubted = fresh(), 0.02, 0.1
    state["means"] = -4.0
    seen = bucket(0, -0.5, variance, age=age)
    score = float(level.from_begin(PLAN, state, seen, row(doubted), row(kept))[0])
    swing_sd = 0.35 * math.sin(math.pi / 86400 * min(age, 43200.0))
    strays = swing_sd**2 - 2 * 0.07**2 * math.expm1(-age / rhythm.WANDER_SECONDS) + doubted**2
    z = [
        -4.0 * math.sqrt(variance) / math.sqrt(variance * 5.0 / min(2 * memory, max(kept, 1.0)) + strays)
        for memory in (10.0, 40.0)
    ]
    assert score == pytest.approx(counts * max(each * each for each in z) / 2 / NATS, rel=1e-4)
    state["means"] = 4.0
    assert level.from_begin(PLAN, state, seen, row(doubted), row(kept))[0] == 0.0
