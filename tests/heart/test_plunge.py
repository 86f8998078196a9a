"""A fall far and at once, interval by interval, against the formulas of the docstring in plain numbers."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pytest

from monitor.core.detectors import base, plunge
from tests.heart import made_trials
from tests.heart.made_trials import RATES, SECONDS, START

PLAN = base.DetectionPlan()
LIMIT = base.nats(PLAN) + plunge.EXTRA_NATS
LOW = (0.2, 0.15, 0.1)


@dataclass
class Reference:
    """The same sum for one stream, written as the docstring has it."""

    spread: float
    local: float = 0.0
    total: float = 0.0
    last_at: float = 0.0

    def step(self, number: int, drafts: float, kept: list[float], information: float) -> float:
        """Return the score, before the limit grows for excursions."""
        if drafts == 0:
            return self.total / LIMIT if self.total else 0.0
        tried = [drafts, *kept[:-1]]
        band = 0.30 + 1.5 * math.sqrt(self.spread / information)
        odds = [rate / (1 - rate) * math.exp(self.local - band) for rate in RATES]
        fallen = [each * math.exp(-2.2) for each in odds]
        nats = sum(n * math.log((1 + o) / (1 + f)) for n, o, f in zip(tried, odds, fallen, strict=True))
        nats -= 2.2 * sum(kept)
        other = self.last_at < START + SECONDS * (number - 1)
        self.last_at = START + SECONDS * number
        if nats <= 0 and self.total <= 0:
            return 0.0
        reach = drafts * np.cumprod([1.0, *RATES[:-1]])
        binomial = sum(n * rate * (1 - rate) for n, rate, t in zip(reach, RATES, tried, strict=True) if t > 0)
        dispersion = max(self.spread + 0.004 * binomial, 1.0)
        requests = binomial / dispersion
        depth = math.log(odds[0] / ((kept[0] + 0.5) / (drafts - kept[0] + 0.5))) * math.sqrt(requests)
        strength = min(max(depth / 4.6, 0.35), 1.4) ** 2
        least = (0.26 if other else 0.10) * strength
        share = min(max(0.008 * requests**2 * strength, least), 0.5)
        gain = min(max(nats / dispersion, -0.5 * LIMIT), share * LIMIT + 0.01)
        self.total = max(self.total + gain, 0.0)
        return self.total / LIMIT


SEQUENCES = {
    "busy": (5000.0, [RATES] * 3 + [LOW] * 4, 40.0),
    "few requests": (100.0, [RATES] * 3 + [LOW] * 14, 60.0),
    "some requests": (700.0, [RATES] * 2 + [LOW, RATES, LOW, LOW, (0.5, 0.4, 0.3), LOW], 40.0),
    "counting alone": (300.0, [RATES, LOW, LOW, RATES, RATES, LOW], 0.5),
    "a small fall": (5000.0, [(0.6, 0.5, 0.4)] * 6, 40.0),
    "a silence between": (60.0, [RATES, None, LOW, None, LOW, LOW, None, None, LOW], 30.0),
}


@pytest.mark.parametrize(("drafts", "rates", "spread"), SEQUENCES.values(), ids=SEQUENCES)
@pytest.mark.parametrize("local", [0.0, -0.4])
def test_the_score_is_the_sum_of_the_docstring(
    drafts: float, rates: list[tuple[float, ...] | None], spread: float, local: float
) -> None:
    """Each interval's likelihood ratio, cut at its share, sums up to the score in units of the limit."""
    state, baseline = np.zeros(1, plunge.DTYPE), made_trials.baseline(20_000.0)
    own, information = Reference(spread, local), float(baseline["information"][0, 0])
    for number, rate in enumerate(rates):
        some = drafts if rate else 0.0
        kept = made_trials.accepted(some, rate or RATES)
        score = plunge.step(
            PLAN,
            state,
            made_trials.trials(number, some, kept),
            baseline,
            made_trials.row(spread),
            made_trials.row(local),
        )
        expected = own.step(number, some, kept, information)
        if some:
            assert score[0] == pytest.approx(expected, rel=2e-3, abs=1e-9)
        assert state["sum"][0] == pytest.approx(own.total, rel=2e-3, abs=1e-9)


def test_a_fall_is_dated_to_its_first_interval() -> None:
    """The begin is that of the first interval that looks like the fall; before it is the end of the last good one."""
    state, baseline = np.zeros(1, plunge.DTYPE), made_trials.baseline()
    for number in range(6):
        kept = made_trials.accepted(5000.0, LOW if number >= 4 else RATES)
        plunge.step(
            PLAN,
            state,
            made_trials.trials(number, 5000.0, kept),
            baseline,
            made_trials.row(40.0),
            made_trials.row(0.0),
        )
    assert (state["since"][0], state["after"][0]) == (START + 3 * SECONDS, START + 3 * SECONDS)
    assert state["sum"][0] > LIMIT


@pytest.mark.parametrize(
    ("drafts", "buckets", "age", "ready"),
    [(500.0, 3, 20.0, True), (499.0, 3, 20.0, False), (500.0, 2, 20.0, False), (500.0, 3, 19.0, False)],
)
def test_it_is_ready_within_a_minute(drafts: float, buckets: int, age: float, ready: bool) -> None:  # noqa: FBT001
    """Five hundred drafts, three buckets and twenty seconds of baseline are needed, and drafts in the interval."""
    baseline = made_trials.baseline(drafts)
    baseline["buckets"], baseline["began_at"] = buckets, START - age
    assert plunge.ready(baseline, made_trials.trials(0, 10.0, made_trials.accepted(10.0)))[0] == ready
    assert not plunge.ready(baseline, made_trials.trials(0, 0.0, [0.0]))[0]


def test_falls_that_passed_raise_the_limit() -> None:
    """Ten falls that came to 0.9 of the limit in a day and passed: the limit grows until they reach it once a month."""
    state, baseline = np.zeros(1, plunge.DTYPE), made_trials.baseline(age=86_400.0)
    state["peak"], state["excursions"], state["excess"] = 0.9, 9.0, 9 * 0.7
    alone = made_trials.row(0.0)
    plunge.step(
        PLAN,
        state,
        made_trials.trials(0, 5000.0, made_trials.accepted(5000.0)),
        baseline,
        made_trials.row(40.0),
        alone,
    )
    assert state["peak"][0] == pytest.approx(0.9)  # no fall at all ends nothing
    state["sum"] = 1e-3
    plunge.step(
        PLAN,
        state,
        made_trials.trials(1, 5000.0, made_trials.accepted(5000.0)),
        baseline,
        made_trials.row(40.0),
        alone,
    )
    assert (state["excursions"][0], state["peak"][0]) == (10.0, 0.0)
    assert state["excess"][0] == pytest.approx(7.0, rel=1e-5)
    low = made_trials.accepted(5000.0, LOW)
    score = plunge.step(
        PLAN, state, made_trials.trials(2, 5000.0, low), baseline, made_trials.row(40.0), alone
    )
    mean = (0.12 * 12 + 7.0) / 22
    grown = 0.2 + mean * math.log(10 * 30 / (1 + 30 / 86_400))
    assert score[0] == pytest.approx((0.5 + 0.01 / LIMIT) / min(max(grown, 1.0), 2.0), rel=1e-4)


@pytest.mark.parametrize(("passed", "number"), [(True, 1), (False, 0)], ids=["passed by itself", "lasted"])
def test_what_ends_is_counted_at_its_end(passed: bool, number: int) -> None:  # noqa: FBT001
    """A fall that passed is an excursion when it ends, of its height above 0.2 and at most one limit; one that lasted is none."""
    state = np.zeros(1, plunge.DTYPE)
    state["sum"], state["peak"] = 20.0, 1.6
    plunge.restart(state, passed=passed)
    assert (state["excursions"][0], state["excess"][0], state["peak"][0], state["sum"][0]) == (
        number,
        number,
        0.0,
        0.0,
    )
