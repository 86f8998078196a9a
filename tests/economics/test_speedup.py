"""The exported speedup is the page's: both rest on the same plain step time."""

from __future__ import annotations

import numpy as np
import pytest

from monitor.core import pipeline
from monitor.core.pages.engines.base import NUM_COUNTERS, Counter, Evidence, Reading
from monitor.core.pages.scrapes import Scrape
from monitor.core.streams import State, summaries
from monitor.core.streams.worth import Told
from monitor.service import snapshot
from tests import made

START, INTERVAL = 1.7e9, 15.0
SCRAPES = 120
PLAIN, DRAFTING = 0.012, 0.004
"""Seconds of a step without drafts, and what four draft tokens add to it."""
DECLARED = 0.02
"""What the operator believes a plain step takes: not what this engine's steps tell."""
WINDOW = 1


def half_drafted(plan: pipeline.Plan) -> State:
    """The state after half an hour in which 30 to 80 % of each scrape's steps carry a draft, and none has no draft."""
    rng = np.random.default_rng(5)
    state = pipeline.begin(plan)
    counters, accepted = np.zeros(NUM_COUNTERS), np.zeros(4)
    for number in range(SCRAPES):
        coverage, outputs = rng.uniform(0.3, 0.8), 1_000.0 * rng.integers(4, 13)
        drafts = round(coverage * outputs)
        noise = 1.0 + 0.002 * rng.standard_normal()
        grown = {
            Counter.ENGINE_STEPS: 1_000.0,
            Counter.DECODE_OUTPUTS: outputs,
            Counter.DECODE_SECONDS: outputs * (PLAIN + DRAFTING * drafts / outputs) * noise,
            Counter.GENERATION_TOKENS: outputs + 2 * drafts,
            Counter.DRAFTS: drafts,
            Counter.DRAFT_TOKENS: 4 * drafts,
            Counter.ACCEPTED_TOKENS: 2 * drafts,
        }
        for counter, value in grown.items():
            counters[counter] += value
        accepted += drafts * np.array([0.8, 0.6, 0.4, 0.2])
        reading = Reading(
            model_name="m",
            replica="0",
            evidence=Evidence.STEPS,
            counters=tuple(counters.tolist()),
            accepted=tuple(accepted.tolist()),
            num_speculative_tokens=4,
            speculating=True,
        )
        pipeline.step(plan, state, [Scrape("t", START + INTERVAL * number, readings=(reading,))])
    return state


def test_metric_and_page_say_the_same_speedup() -> None:
    """Half of the steps go without a draft: both take the plain step time that these tell, not the declared one."""
    plan = pipeline.Plan(told={"m": Told(plain_step_seconds=DECLARED)})
    state = half_drafted(plan)
    now = START + INTERVAL * (SCRAPES - 1)
    parts = made.parts(plan, state, {"t": "http://t/metrics"}, started_at=START)
    (record,) = summaries.over_window(plan, state, WINDOW, now)
    page = record["payoff"]
    assert isinstance(page, dict)
    families = {family.name: family for family in snapshot.Snapshot(parts, now).families()}
    exported = families["specmon_speculation_speedup_ratio"].columns[0]
    assert exported.more == 'window="5m"'
    assert page["origin"] == "uncovered"
    assert page["plain_step_seconds"] == pytest.approx(PLAIN, rel=0.01)
    assert np.asarray(exported.values, float)[0] == pytest.approx(page["speedup"], abs=1e-6)
