"""Slow changes, block by block, against the formulas of the docstring in plain numbers."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pytest

from monitor.core.detectors import base, trend
from monitor.core.detectors.measures import evidence, rhythm, scores, traffic
from tests.heart import made_trials
from tests.heart.made_trials import START, row

if TYPE_CHECKING:
    from monitor.core.detectors.base import Floats, State, Verdict
    from monitor.core.detectors.measures.rhythm import Expectation

PLAN = base.DetectionPlan()
LIMIT = math.sqrt(2 * (math.log(30 * 86400 / 15) - 7.25))
WINDOWS = (900.0, 2700.0, 9000.0)
RATES = (0.8, 0.7, 0.6)
AGE = 3000.0
DAY = 86400.0


def fresh() -> State:
    """Return a stream that was never seen."""
    state = np.zeros(1, trend.DTYPE)
    trend.allocate(state)
    return state


def quiet_traffic() -> State:
    """Return traffic that explains nothing."""
    state = np.zeros(1, traffic.DTYPE)
    traffic.allocate(state)
    return state


def sums(drafts: float, shift: float) -> Floats:
    """Return the sums of a block in which every position's odds moved by `shift` logits."""
    odds = [rate / (1 - rate) * math.exp(shift) for rate in RATES]
    kept = made_trials.accepted(drafts, [each / (1 + each) for each in odds])
    return made_trials.trials(0, drafts, kept).sums


def judged(
    state: State, number: int, drafts: float, shift: float, *, enabled: bool = True, own: State | None = None
) -> Verdict:
    """Return the verdict on the block `number`, five minutes after the one before."""
    state["sums"] = sums(drafts, shift)
    baseline = made_trials.baseline(1e6, RATES, age=AGE)
    told = quiet_traffic() if own is None else own
    return trend.step(PLAN, state, baseline, told, row(START + 300.0 * number), np.array([enabled]))


@dataclass
class Reference:
    """The same detector for one stream without news of traffic, written as the docstring has it."""

    rhythm: State = field(default_factory=lambda: fresh()["rhythm"])
    weight: list[float] = field(default_factory=lambda: [0.0] * 3)
    total: list[float] = field(default_factory=lambda: [0.0] * 3)
    noise: list[float] = field(default_factory=lambda: [0.0] * 3)
    spread: float = 120.0
    wander: float = 0.07**2
    last_at: float = 0.0
    last: float = 0.0
    last_information: float = 0.0
    blocks: int = 0
    since: list[float] = field(default_factory=lambda: [0.0, 0.0])
    shift: float = 0.0

    def step(self, number: int, drafts: float, shift: float) -> tuple[float, float]:
        """Return the scores of fall and rise."""
        at = START + 300.0 * number
        baseline = made_trials.baseline(1e6, RATES, age=AGE)
        block = scores.against(sums(drafts, shift), baseline["rate"], np.arange(8)[None] < 3)
        information = max(float(block.information[0, 0]), 1.0)
        seen = rhythm.expect(self.rhythm, row(at - 145.0))
        away = min(max(float(block.shift[0, 0]), -1.5), 1.5) - float(seen.level[0])
        lag = max(at - self.last_at, 0.0)
        raw, error = self._windows(away, self.spread / information, lag)
        z = []
        for window, mean, few in zip(WINDOWS, raw, error, strict=True):
            variance = 1.3 * few + self.wander / (1 + window / 7200) + float(seen.unknown[0])
            z.append(mean / math.sqrt(variance) * (few < 0.09**2))
        down, up = max(-min(z), 0.0) / LIMIT, max(*z, 0.0) / LIMIT
        far = (raw[0] + float(seen.level[0])) * (self.blocks < 288)
        strays = 0.35 * math.sin(math.pi / DAY * min(at - START + AGE, DAY / 2))
        strays = strays**2 - 2 * self.wander * math.expm1(-(at - START + AGE) / 7200)
        first_day = 1.15**2 * (strays + 1.3 * (error[0] + self.spread / information))
        deep = max(-far / math.sqrt(first_day), 0.0) / LIMIT
        self.shift = far if deep > down else raw[z.index(min(z) if down > up else max(z))]
        for side, inside in enumerate((z[0] > -1, z[0] < 1)):
            if inside or not self.since[side]:
                self.since[side] = at - 290.0
        highest = max(down, deep, up)
        self._learn(seen, away, (raw[1], error[1]), information, highest)
        self.last_at, self.last, self.last_information = at, away, information
        self.blocks += 1
        down = max(down, deep)
        return (down if self.blocks > 8 else deep * (self.blocks > 3)), up * (self.blocks > 8)

    def _windows(self, away: float, noise: float, lag: float) -> tuple[list[float], list[float]]:
        share = 1 / (noise + 0.002)
        for place, window in enumerate(WINDOWS):
            fade = math.exp(-lag / window)
            self.weight[place] = self.weight[place] * fade + share
            self.total[place] = self.total[place] * fade + share * away
            self.noise[place] = self.noise[place] * fade**2 + share**2 * noise
        raw = [total / weight for total, weight in zip(self.total, self.weight, strict=True)]
        return raw, [noise / weight**2 for noise, weight in zip(self.noise, self.weight, strict=True)]

    def _learn(
        self,
        seen: Expectation,
        away: float,
        hour: tuple[float, float],
        information: float,
        highest: float,
    ) -> None:
        if self.last_information > 0:
            both = 1 / information + 1 / self.last_information
            change = min((away - self.last) ** 2 / both, 10 * self.spread)
            self.spread = max(self.spread + (change - self.spread) / (6 + min(self.blocks, 600)), 1.0)
        if highest < 0.6 and float(seen.of_week[0]) < self.wander:
            mean, error = hour
            left = 1 - 0.24 * min(self.blocks / 864, 1.0)
            strayed = (mean**2 - error) / (left / (1 + 2700 / 7200))
            strayed = min(max(strayed, 0.0), 9 * self.wander)
            self.wander = max(
                self.wander + (strayed - self.wander) / (144 + min(self.blocks, 1440)), 0.035**2
            )
        days = row(290.0 / DAY * (highest < 1))
        noise = row(self.spread / information)
        rhythm.learn(self.rhythm, seen, row(away), noise, row(self.wander), days)


def swing(number: int) -> float:
    """Return a wander that repeats itself."""
    return 0.04 * math.sin(0.8 * number) + 0.03 * math.sin(0.21 * number + 1)


SEQUENCES = {
    "a slow fall": (20_000.0, [swing(n) - 0.05 * max(n - 6, 0) for n in range(30)]),
    "a slow rise": (20_000.0, [swing(n) + 0.04 * max(n - 6, 0) for n in range(30)]),
    "a deep fall of a young stream": (60_000.0, [swing(n) - 1.4 * (n >= 4) for n in range(14)]),
    "few requests": (1500.0, [4 * swing(n) - 0.1 * max(n - 6, 0) for n in range(30)]),
    "quiet": (80_000.0, [swing(n) for n in range(30)]),
    "beyond what counts": (80_000.0, [swing(n) - 2.5 * (n >= 10) for n in range(16)]),
}


@pytest.mark.parametrize(("drafts", "moves"), SEQUENCES.values(), ids=SEQUENCES)
def test_the_scores_are_those_of_the_docstring(drafts: float, moves: list[float]) -> None:
    """Windows, what is expected, noise, wander and the first day's own test are those of the formulas."""
    state, own = fresh(), Reference()
    for number, move in enumerate(moves):
        verdict = judged(state, number, drafts, move)
        down, up = own.step(number, drafts, move)
        assert verdict.down[0] == pytest.approx(down, rel=5e-3, abs=2e-4)
        assert verdict.up[0] == pytest.approx(up, rel=5e-3, abs=2e-4)
        assert (verdict.down_since[0], verdict.up_since[0]) == tuple(own.since)
        assert state["shift"][0] == pytest.approx(own.shift, rel=5e-3, abs=2e-4)
    assert state["spread"][0] == pytest.approx(own.spread, rel=1e-3)
    assert state["wander"][0] == pytest.approx(own.wander, rel=1e-3)
    assert state["rhythm"]["theta"][0] == pytest.approx(own.rhythm["theta"][0], rel=5e-3, abs=1e-5)


def test_a_pause_fades_what_was_seen_and_is_no_neighbour() -> None:
    """After hours the windows hold the new block alone, and its distance from the last one teaches no noise."""
    state = fresh()
    for number in range(10):
        judged(state, number, 20_000.0, 0.0)
    spread = float(state["spread"][0])
    judged(state, 200, 20_000.0, -0.6)
    assert state["spread"][0] == spread
    assert state["sum"][0, 0] / state["weight"][0, 0] == pytest.approx(-0.6, abs=0.02)
    judged(state, 202, 20_000.0, -0.6)
    assert state["spread"][0] != spread


def test_what_is_not_enabled_is_remembered_for_later() -> None:
    """While a trouble is open its blocks are summed up, and what is judged stands still."""
    state = fresh()
    for number in range(10):
        judged(state, number, 20_000.0, 0.0)
    weight = state["weight"].copy()
    told = [judged(state, number, 20_000.0, -0.5, enabled=False) for number in range(10, 14)]
    assert all(each.down[0] == 0.0 for each in told)
    assert (state["weight"] == weight).all()
    assert state["blocks"][0] == 10
    assert state["passing"][0, -1] == 4.0
    assert state["passing"][0, traffic.FIGURES] == pytest.approx(4 * -0.5, abs=0.1)
    rebased = state.copy()
    trend.rebase(rebased, 0)
    assert rebased["rhythm"]["theta"][0, 0] == pytest.approx(
        float(state["rhythm"]["theta"][0, 0]) - 0.5, abs=0.03
    )
    assert not rebased["passing"].any()
    judged(state, 14, 20_000.0, 0.0)
    assert not state["passing"].any()


def test_a_block_is_five_minutes_of_buckets() -> None:
    """Buckets add up until 290 seconds are over; after an hour's silence a block begins anew."""
    state, bucket = fresh(), np.zeros(1, evidence.DTYPE)
    bucket["sums"] = made_trials.trials(0, 100.0, [80.0]).sums
    deviation = np.array([[0.1, 0.0, -0.2]])
    for began, end, full in ((0.0, 150.0, False), (150.0, 289.0, False), (289.0, 290.0, True)):
        bucket["began_at"] = START + began
        assert trend.gather(state, bucket, deviation, row(START + end)).tolist() == [full]
    assert (state["sums"][0, base.DRAFTS], state["began_at"][0]) == (300.0, START)
    assert state["traffic"][0] == pytest.approx([30.0, 0.0, -60.0])
    for pause, drafts in ((3600.0, 400.0), (3601.0, 100.0)):
        late = state.copy()
        bucket["began_at"] = START + pause
        trend.gather(late, bucket, deviation, row(START + pause + 15.0))
        assert late["sums"][0, base.DRAFTS] == drafts
        assert late["traffic"][0, 0] == pytest.approx(drafts / 10.0)


def test_what_traffic_explains_is_no_change() -> None:
    """A fall that traffic is known to make scores nothing, as far as it goes."""
    own = quiet_traffic()
    own["effect"], own["covariance"], own["square"] = [0.5, 0.0, 0.0], 0.0, 1.0
    told = []
    for explained in (False, True):
        state = fresh()
        for number in range(10):
            judged(state, number, 20_000.0, 0.0)
        state["blocks"] = 300.0  # on its first day a stream is held against its begin, whatever the traffic
        for number in range(10, 13):
            state["traffic"] = [-0.8 * 20_000.0 * explained, 0.0, 0.0]
            down = float(judged(state, number, 20_000.0, -0.4, own=own.copy()).down[0])
        told.append(down)
    assert told[0] > 0.5
    assert told[1] < 0.05


def test_what_is_forgotten() -> None:
    """A restart forgets windows and the block at hand, another k also where its positions began; the rhythm stays."""
    state = fresh()
    for number in range(5):
        judged(state, number, 20_000.0, -0.1)
    theta, state["sums"] = state["rhythm"]["theta"].copy(), 5.0
    trend.forget(state, row(2.0))
    assert (state["rate"][0] > 0.0).tolist() == [True, True] + [False] * 6
    assert not state["sums"].any()
    assert state["weight"].all()
    trend.restart(state)
    assert not state["weight"].any()
    assert state["last_information"][0] == 0.0
    assert (state["rhythm"]["theta"] == theta).all()


def test_the_rhythm_as_a_score_against_other_rates() -> None:
    """What was expected of the last block, moved by how far the trend's own begin is from the rates asked about."""
    state = fresh()
    state["rate"], state["expected"] = 0.8, -0.2
    assert trend.against(state, np.full((1, 8), 0.8))[0] == pytest.approx(-0.2)
    assert trend.against(state, np.full((1, 8), 0.5))[0] == pytest.approx(-0.2 + math.log(4.0), rel=1e-5)
    state["rate"] = 0.0
    assert trend.against(state, np.full((1, 8), 0.5))[0] == pytest.approx(-0.2)
    state["rate"] = [[0.9, 0.5, 0, 0, 0, 0, 0, 0]]
    asked = np.array([[0.8, 0.7, 0.6, 0.6, 0.6, 0.6, 0.6, 0.6]])
    reach = np.cumprod([1.0, *asked[0, :-1]])
    weight = asked[0] * (1 - asked[0]) * reach
    moved = [math.log(9.0) - math.log(4.0), 0.0 - math.log(7 / 3)]
    expected = -0.2 + (weight[0] * moved[0] + weight[1] * moved[1]) / weight.sum()
    assert trend.against(state, asked)[0] == pytest.approx(expected, rel=1e-5)
