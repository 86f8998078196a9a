"""The verdict: speculation pays, is even, costs, or it cannot be said and why."""

from __future__ import annotations

import math

import pytest

from monitor.core.economics import payoff
from monitor.core.economics.payoff import Observed, Plain

SEEN = Observed(
    drafts=5000, mal=3.3616, mal_low=3.25, mal_high=3.47, tokens_per_step=3.3616, step_seconds=0.01449
)


@pytest.mark.parametrize(
    ("plain", "outcome"),
    [(0.01449, "pays"), (0.0043, "even"), (0.0030, "costs")],
    ids=["same step", "a step so dear that it is even", "plain steps are faster"],
)
def test_the_interval_decides(plain: float, outcome: str) -> None:
    """At α 0.8 and k 4 a step gives 3.36 tokens: what that is worth depends on the plain step time alone."""
    found = payoff.of(SEEN, Plain(plain, 0.01 * plain, "undrafted"))
    assert found.outcome == outcome
    assert found.low < found.speedup < found.high


def test_before_the_draft_costs_anything_the_speedup_is_the_mal() -> None:
    """14.49 ms a step, 4.31 ms a token: 3.36 times as fast where the draft were free."""
    found = payoff.of(SEEN, Plain(0.01449, 0.0, "declared"))
    assert found.speedup == pytest.approx(3.3616)
    assert 0.01449 / found.speedup == pytest.approx(0.00431, abs=1e-5)


def test_a_wide_interval_is_no_verdict() -> None:
    """A plain step time known to 30 % cannot tell 1.1 from 0.9, and the sentence says what is known."""
    found = payoff.of(SEEN, Plain(0.0050, 0.0015, "fitted"))
    assert found.outcome == "unknown"
    assert payoff.sentence(found).startswith("whether speculation pays cannot be said: 1.16× plain decoding")


def test_without_a_plain_step_time_the_ways_to_learn_it_are_named() -> None:
    """Nobody measured a plain step: no number, and what to do."""
    found = payoff.of(SEEN, None)
    assert math.isnan(found.speedup)
    assert "ways to learn it: run `specmon calibrate`" in payoff.sentence(found)


def test_the_sentence_names_interval_and_origin() -> None:
    """A reader sees how fast, how sure, and from what."""
    said = payoff.sentence(payoff.of(SEEN, Plain(0.01449, 0.0001, "undrafted")))
    assert said == (
        "speculation pays: 3.36× faster than plain decoding [3.24, 3.48]; "
        "plain step time from this stream's own steps without drafts"
    )
