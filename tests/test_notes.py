"""A note of another k, or of speculation switched off, is filled in with what came after it."""

from __future__ import annotations

import math

import numpy as np
import pytest

from monitor.core import events, pipeline
from monitor.core.detectors import base
from monitor.core.detectors.base import Level
from monitor.core.pages.scrapes import Scrape
from monitor.core.streams import checkpoint, notes
from tests import made

COUNTED = 60
MORE = 10
SECONDS = 120.0
RATES = (0.8, 0.6, 0.4)


def counters(pages: int, rates: tuple[float, ...]) -> bytes:
    """Return the n-th page of a steady stream of 100 drafts a page, with step times."""
    drafts = 100 * pages
    tokens = drafts + sum(rate * drafts for rate in rates)
    return made.page(
        tuple(rate * drafts for rate in rates),
        drafts=drafts,
        more={
            "generation_tokens_total": tokens,
            "iteration_tokens_total_count": drafts,
            "iteration_tokens_total_sum": tokens,
            "inter_token_latency_seconds_count": drafts,
            "inter_token_latency_seconds_sum": drafts * 0.03,
        },
        started_at=made.START - 9 if len(rates) > 2 else made.START + SECONDS * (COUNTED - 0.5),
    )


def told(bodies: list[bytes], *, stop: int | None = None) -> list[events.Event]:
    """Return the events of pages; the state is saved and restored after `stop` of them."""
    plan = pipeline.Plan()
    state = pipeline.begin(plan)
    found: list[events.Event] = []
    for number, body in enumerate(bodies):
        scrape = Scrape("t", made.START + SECONDS * number, body=body)
        found += pipeline.step(plan, state, [scrape]).events
        if number == stop:
            state = checkpoint.thaw(plan, checkpoint.freeze(state))
    return found


def test_a_change_of_k_says_what_came_after() -> None:
    """With k 2 for 3 a note is made at once, and told again under its id with MAL, drafts and cost five minutes on."""
    first = [counters(n, RATES) for n in range(1, COUNTED + 1)]
    then = [counters(n, RATES[:2]) for n in range(1, MORE)]
    note, filled = told([*first, *then], stop=COUNTED + 1)
    assert (note.kind, note.id) == ("regime_change", filled.id)
    assert math.isnan(note.after.mal)
    assert note.before.mal == pytest.approx(2.8, abs=0.01)
    assert filled.after.mal == pytest.approx(2.4, abs=0.01)
    assert filled.after.drafts >= 500.0
    assert (filled.status, filled.raised_at) == ("closed", note.raised_at)
    assert filled.cost.tokens_per_step_ratio == pytest.approx(2.4 / 2.8, rel=0.02)
    assert filled.facts[-1] == "over the 2 positions that both have, MAL is 2.40 after 2.40"
    found = events.verdict(filled.before, filled.after)
    assert found is not None
    assert found.outcome == "no_difference"


def test_speculation_switched_off_says_what_it_costs() -> None:
    """What was there is said at once, a token a step since; the time per token follows once it was seen."""
    first = [counters(n, RATES) for n in range(1, COUNTED + 1)]
    bare = [
        made.page(
            more={
                "generation_tokens_total": 100.0 * n,
                "inter_token_latency_seconds_count": 100.0 * n,
                "inter_token_latency_seconds_sum": 100.0 * n * 0.02,
            },
            started_at=made.START + SECONDS * (COUNTED - 0.5),
        )
        for n in range(1, MORE)
    ]
    note, filled = [event for event in told([*first, *bare]) if event.kind == "speculation_off"]
    assert note.id == filled.id
    for each in (note, filled):
        assert each.before.mal == pytest.approx(2.8, abs=0.01)
        assert (each.after.mal, each.after.drafts, each.cost.benefit_lost_ratio) == (1.0, 0.0, 1.0)
    assert filled.cost.tpot_ratio == pytest.approx(0.02 / (0.03 / 2.8), rel=0.05)


def test_levels_of_other_k_are_compared_over_the_positions_that_both_have() -> None:
    """A MAL of 3 positions against one of 2 is no verdict: the first two are compared, intervals in proportion."""
    three = Level(2.8, 2.7, 2.9, (0.8, 0.75, 2.0 / 3.0), 1000.0)
    two = Level(2.4, 2.35, 2.45, (0.8, 0.75), 1000.0)
    old, new = base.comparable(three, two)
    assert (old.mal, old.mal_low, old.mal_high) == pytest.approx(
        (2.4, 2.4 - 0.1 * 1.4 / 1.8, 2.4 + 0.1 * 1.4 / 1.8)
    )
    assert new.mal == pytest.approx(2.4)
    worse = Level(2.2, 2.15, 2.25, (0.7, 0.7142857), 1000.0)
    found = events.verdict(three, worse)
    assert found is not None
    assert found.outcome == "worse"


def test_beyond_eight_positions_the_first_seven_are_compared() -> None:
    """The eighth of a longer draft stands for all later ones: k 12 after k 8 and 16 after 12 differ by k alone."""
    kept = {k: [0.8**j for j in range(1, k + 1)] for k in (8, 12, 16)}
    levels = {
        k: Level(
            1.0 + sum(marginal), 1.0, 6.0, tuple(notes._conditional(np.array(marginal), 1.0).tolist()), 1000.0
        )
        for k, marginal in kept.items()
    }
    first_seven = 1.0 + sum(kept[8][:7])
    for one, other in ((8, 12), (12, 8), (12, 16)):
        old, new = base.comparable(levels[one], levels[other])
        assert (len(old.conditional), len(new.conditional)) == (7, 7)
        assert (old.mal, new.mal) == pytest.approx((first_seven, first_seven))
    assert base.comparable(levels[8], levels[8]) == (levels[8], levels[8])


def test_the_conditional_acceptance_of_a_position_nothing_reached_is_left_out() -> None:
    """0 of 0 is unknown: a level ends at the last position that was tried."""
    assert notes._conditional(np.array([50.0, 0.0, 0.0]), 100.0).tolist() == [0.5, 0.0]
    assert notes._conditional(np.array([]), 100.0).tolist() == []
