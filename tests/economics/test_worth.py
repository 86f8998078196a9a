"""The plain step time of a running stream comes from the best origin there is."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from monitor.core import pipeline
from monitor.core.counts import estimates, windows
from monitor.core.economics import payoff
from monitor.core.pages.engines.base import NUM_COUNTERS, Counter, Evidence, Reading
from monitor.core.pages.scrapes import Scrape
from monitor.core.streams import State, checkpoint, summaries, worth
from monitor.core.streams.worth import Told

PLAIN, DRAFTED = 0.012, 0.016
"""Seconds of a plain step and of one that verifies four draft tokens, of the made engine, whatever the batch."""


class Engine:
    """Cumulative counters of one replica that decodes eight requests at a time; MAL 3 when it speculates."""

    def __init__(self, target: str) -> None:
        self.target = target
        self.counters = np.zeros(NUM_COUNTERS)
        self.accepted = np.zeros(4)

    def scrape(self, at: float, *, drafting: bool = True, speculating: bool = True) -> Scrape:
        """The page after 1,000 more steps, each with or without a draft."""
        outputs = 8_000.0
        delivered = outputs * (3.0 if drafting else 1.0)
        grown = {
            Counter.ENGINE_STEPS: 1_000.0,
            Counter.DECODE_OUTPUTS: outputs,
            Counter.DECODE_SECONDS: outputs
            * (DRAFTED if drafting else PLAIN)
            * (1.0 + 0.002 * (at % 60 / 60)),
            Counter.GENERATION_TOKENS: delivered,
        }
        if drafting:
            grown |= {
                Counter.DRAFTS: outputs,
                Counter.DRAFT_TOKENS: 4 * outputs,
                Counter.ACCEPTED_TOKENS: 2 * outputs,
            }
            self.accepted += outputs * np.array([0.8, 0.6, 0.4, 0.2])
        for counter, value in grown.items():
            self.counters[counter] += value
        reading = Reading(
            model_name="m",
            replica="0",
            evidence=Evidence.STEPS,
            counters=tuple(self.counters.tolist()),
            accepted=tuple(self.accepted.tolist()) if speculating else (),
            num_speculative_tokens=4,
            speculating=speculating,
        )
        return Scrape(self.target, at, readings=(reading,))


def watched(*phases: tuple[int, bool], beside: bool = False, plan: pipeline.Plan | None = None) -> State:
    """The state after phases of so many scrapes each, with drafts or without; `beside`: and a plain replica."""
    plan = plan or pipeline.Plan()
    state, at = pipeline.begin(plan), 0.0
    one, other = Engine("one"), Engine("other")
    for scrapes, drafting in phases:
        for _ in range(scrapes):
            at += 15.0
            pages = [one.scrape(at, drafting=drafting)]
            if beside:
                pages.append(other.scrape(at, drafting=False, speculating=False))
            pipeline.step(plan, state, pages)
    return state


def verdict(state: State, told: dict[str, Told] | None = None) -> payoff.Payoff:
    """The verdict on the first stream over all of its life."""
    made = estimates.from_sums(windows.total(state.sums[:1]))
    plain = worth.plain_steps(told or {}, state, np.array([0]), made.batch_size)
    return worth.verdict(plain, made, 0)


def test_without_any_origin_nothing_is_claimed() -> None:
    """A stream that always drafts four tokens, alone and undeclared: the verdict cannot be said."""
    found = verdict(watched((40, True)))
    assert found.outcome == "unknown"
    assert math.isnan(found.speedup)


def test_its_own_steps_without_drafts_tell() -> None:
    """Ten minutes without drafts in the life of a stream give its plain step time: 3 × 12 ÷ 16 = 2.25 times."""
    state = watched((40, True), (40, False))
    made = estimates.from_sums(windows.total(state.sums[:1]))
    plain = worth.plain_steps({}, state, np.array([0]), made.batch_size).at(0)
    assert plain is not None
    assert plain.origin == "undrafted"
    assert plain.seconds == pytest.approx(PLAIN, rel=0.01)


def test_a_plain_replica_of_the_same_model_tells() -> None:
    """A replica beside it that does not speculate is a better origin than a person's number."""
    found = verdict(watched((40, True), beside=True), {"m": Told(plain_step_seconds=0.05)})
    assert found.origin == "replica"
    assert found.outcome == "pays"
    assert found.speedup == pytest.approx(3.0 * PLAIN / DRAFTED, rel=0.01)
    assert found.low < 3.0 * PLAIN / DRAFTED < found.high


def test_the_operators_number_is_of_its_model_only() -> None:
    """A plain step time that is declared for another model says nothing of this one."""
    state = watched((40, True))
    assert verdict(state, {"other": Told(plain_step_seconds=PLAIN)}).outcome == "unknown"
    assert verdict(state, {"m": Told(plain_step_seconds=PLAIN)}).origin == "declared"
    assert verdict(state, {"": Told(plain_step_seconds=PLAIN)}).speedup == pytest.approx(2.25, rel=0.01)


def test_a_calibration_stands_before_all_others_near_its_batch_sizes() -> None:
    """Measured at batches of 4 and 16 it tells a batch of 8; a stream at a batch far outside asks the next."""
    state = watched((40, True), beside=True)
    assert (
        verdict(state, {"m": Told(calibrated=((4.0, 0.010, 1e-4), (16.0, 0.016, 1e-4)))}).origin
        == "calibrated"
    )
    assert verdict(state, {"m": Told(calibrated=((64.0, 0.030, 1e-4),))}).origin == "replica"


def test_a_step_that_costs_more_than_it_gives_is_said() -> None:
    """Three tokens in the time of four plain steps: it costs."""
    found = verdict(watched((40, True)), {"m": Told(plain_step_seconds=DRAFTED / 4)})
    assert found.outcome == "costs"
    assert "costs you: 0.75× plain decoding" in payoff.sentence(found)


def test_what_was_learnt_survives_a_restart_and_a_forgotten_stream() -> None:
    """Step times are part of the saved state, and are renumbered with the rows."""
    plan = pipeline.Plan()
    state = watched((40, True), beside=True)
    kept = checkpoint.thaw(plan, checkpoint.freeze(state))
    assert (kept.step_times == state.step_times).all()
    state.keep(np.array([1]))
    assert len(state.step_times) == 1
    assert state.step_times["undrafted"][0, 0, 0] > 0.0


def test_undrafted_streams_have_no_speedup() -> None:
    """What drafts nothing has no verdict and no series: there is nothing to compare."""
    state = watched((20, False))
    made = estimates.from_sums(windows.total(state.sums))
    plain = worth.plain_steps({}, state, np.array([0]), made.batch_size)
    assert np.isnan(worth.speedups(replace(plain), made)).all()


def test_a_page_shows_the_shortest_window_with_enough_drafts() -> None:
    """One record a stream: that of the first window with so many drafts, of the longest where none has."""
    plan = pipeline.Plan()
    state, one, idle = pipeline.begin(plan), Engine("one"), Engine("idle")
    for n in range(1, 40):
        pages = [one.scrape(15.0 * n)] + ([idle.scrape(15.0 * n)] if n < 20 else [])
        pipeline.step(plan, state, pages)
    now = 15.0 * 39
    for least in (0.0, 1.0, 40_000.0, 1e9):
        over = [summaries.over_window(plan, state, window, now) for window in range(3)]
        chosen = [
            next(
                (records[row] for records in over if float(str(records[row]["drafts"])) >= least),
                over[-1][row],
            )
            for row in range(2)
        ]
        assert summaries.over_shortest(plan, state, now, least) == chosen
