"""Counts become acceptance, tokens per step and times, each with an honest interval."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.core.counts import estimates, windows
from monitor.core.pages.engines.base import Counter
from tests import made

if TYPE_CHECKING:
    from monitor.core.counts.deltas import Counts

NUM_POSITIONS = 8


def of(counted: Counts) -> estimates.Estimates:
    """Return the estimates over one interval's counts."""
    return estimates.from_sums(made.sums(counted))


# The figures of the product's card ----------------------------------------------------------------------


def test_the_seed_of_this_product() -> None:
    """With α = 0.8 and four draft tokens a step gives 3.3616 tokens: 14.49 ms a step are 4.31 ms a token."""
    mal = estimates.mal_from_alpha(0.8, 4)
    assert float(mal) == pytest.approx(3.3616, abs=5e-5)
    drafts = 10_000.0
    kept = [drafts * 0.8 ** (j + 1) for j in range(4)]
    times = {
        Counter.DECODE_OUTPUTS: [drafts],
        Counter.DECODE_SECONDS: [drafts * 0.01449],
        Counter.GENERATION_TOKENS: [drafts + sum(kept)],
        Counter.FIRST_TOKENS: [0.0],
    }
    seen = of(made.counts([kept], [drafts], more=times))
    assert seen.mal[0] == pytest.approx(3.3616, abs=5e-5)
    assert seen.alpha[0] == pytest.approx(0.8, abs=1e-6)
    assert seen.conditional[0, :4] == pytest.approx([0.8] * 4)
    assert seen.implied_tpot_seconds[0] * 1000 == pytest.approx(4.31, abs=0.005)


# α ------------------------------------------------------------------------------------------------------


@given(st.floats(0.0, 1.0), st.integers(1, 16))
def test_alpha_is_the_inverse(alpha: float, num_speculative_tokens: int) -> None:
    """Inverting a mean acceptance length gives back the α it was made of, within 1e-6."""
    mal = np.atleast_1d(estimates.mal_from_alpha(alpha, num_speculative_tokens))
    found = estimates.alpha_from_mal(mal, np.array([num_speculative_tokens]))
    assert found[0] == pytest.approx(alpha, abs=1e-6)


@pytest.mark.parametrize("num_speculative_tokens", [1, 4, 48, 128])
def test_alpha_reaches_both_ends(num_speculative_tokens: int) -> None:
    """A length of exactly 1 is α 0, one of 1 + k is α 1; what torn pages put beyond stays at the ends."""
    mal = np.array([1.0, 0.99, 1.0 + num_speculative_tokens, 1.02 + num_speculative_tokens])
    found = estimates.alpha_from_mal(mal, np.full(4, num_speculative_tokens))
    assert found.tolist() == [0.0, 0.0, 1.0, 1.0]


def test_alpha_is_unknown_without_k_or_length() -> None:
    """Without a known number of draft tokens, or without a draft, there is no α."""
    found = estimates.alpha_from_mal(np.array([2.0, np.nan]), np.array([0, 4]))
    assert np.isnan(found).all()


def test_alpha_is_that_of_each_row() -> None:
    """Rows with different k are inverted each with its own (case C06: α and expected accepted tokens)."""
    alphas = np.array([0.8, 0.6, 0.5, 1.0, 0.0])
    depths = np.array([8, 8, 4, 8, 8])
    accepted = np.array([3.3289, 1.4748, 0.9375, 8.0, 0.0])
    lengths = np.array(
        [float(estimates.mal_from_alpha(a, int(k))) for a, k in zip(alphas, depths, strict=True)]
    )
    assert lengths - 1.0 == pytest.approx(accepted, abs=5e-5)
    assert estimates.alpha_from_mal(lengths, depths) == pytest.approx(alphas, abs=1e-6)


def test_k_is_counted_where_the_page_does_not_say_it() -> None:
    """Without positions k is the draft tokens per draft rounded up: 6.998 is 7, some drafts were cut short."""
    counted = made.counts(
        [], [17850.0], more={Counter.DRAFT_TOKENS: [124920.0], Counter.ACCEPTED_TOKENS: [33680.0]}
    )
    assert of(counted).alpha[0] == pytest.approx(0.6672, abs=1e-4)


def test_two_ks_in_one_window_have_no_alpha() -> None:
    """A window with drafts of four and of two tokens has a mean length, and no α of either k."""
    state = np.zeros(1, windows.dtype(1, NUM_POSITIONS))
    windows.add(state, made.counts([[950, 900, 850, 800]], [1000.0], at=1.0), (600.0,))
    windows.add(state, made.counts([[900, 800]], [1000.0], at=2.0), (600.0,))
    seen = estimates.from_sums(windows.total(state))
    assert seen.mal[0] == pytest.approx(1 + 5200 / 2000)
    assert np.isnan(seen.alpha[0])


# Unknown is not zero ------------------------------------------------------------------------------------


def test_idle_is_unknown() -> None:
    """An interval without a draft has no length, rate, α or interval: not 0, not 1 (case C04)."""
    idle = {Counter.DECODE_OUTPUTS: [0.0], Counter.DECODE_SECONDS: [0.0], Counter.GENERATION_TOKENS: [0.0]}
    seen = of(
        made.counts([[0, 0]], [0.0], more=idle | {Counter.FIRST_TOKENS: [0.0], Counter.ENGINE_STEPS: [0.0]})
    )
    assert seen.drafts[0] == 0
    for name in estimates.Estimates.__slots__:
        if name not in ("seconds", "drafts", "draft_tokens", "accepted_tokens", "accepted"):
            assert np.isnan(getattr(seen, name)).all(), name


def test_a_position_that_nothing_reached_is_unknown() -> None:
    """Of 25 accepted at position 0 none was accepted at 1: that is 0; at 2 it is 0 of 0: unknown (case A02)."""
    seen = of(made.counts([[25, 0, 0, 0]], [913.0]))
    assert seen.marginal[0, :4] == pytest.approx([25 / 913, 0, 0, 0])
    assert seen.conditional[0, :2] == pytest.approx([25 / 913, 0])
    assert np.isnan(seen.conditional[0, 2:]).all()
    assert np.isnan(seen.marginal[0, 4:]).all()


def test_zero_accepted_is_a_measured_one() -> None:
    """Nothing accepted of many drafts is a length of exactly 1, known to be near 1 (case A03)."""
    seen = of(made.counts([[0]], [279.0]))
    assert (seen.mal[0], seen.alpha[0], seen.mal_low[0]) == (1.0, 0.0, 1.0)
    assert 1.0 < seen.mal_high[0] < 1.1


def test_counters_that_the_engine_does_not_have_are_unknown() -> None:
    """A page with drafts and accepted tokens only gives a length and no time, coverage or rate per position."""
    seen = of(made.counts([], [100.0], more={Counter.ACCEPTED_TOKENS: [150.0]}))
    assert seen.mal[0] == 2.5
    for name in (
        "coverage",
        "tokens_per_step",
        "step_seconds",
        "implied_tpot_seconds",
        "batch_size",
        "alpha",
    ):
        assert np.isnan(getattr(seen, name)[0]), name
    assert np.isnan(seen.marginal).all()
    assert seen.mal_low[0] < 2.5 < seen.mal_high[0]


# Tokens per step and times ------------------------------------------------------------------------------


def step_counts(
    drafts: float, accepted: float, outputs: float, *, trimmed: float = 0.0, first: float = 10.0
) -> Counts:
    """Return counts of steps of 10 ms with `accepted` tokens in `drafts` of `outputs` request-steps."""
    return made.counts(
        [],
        [drafts],
        more={
            Counter.ACCEPTED_TOKENS: [accepted],
            Counter.DECODE_OUTPUTS: [outputs],
            Counter.DECODE_SECONDS: [outputs * 0.010],
            Counter.GENERATION_TOKENS: [first + outputs + accepted - trimmed],
            Counter.FIRST_TOKENS: [first],
            Counter.ENGINE_STEPS: [outputs / 4 + first / 10],
        },
    )


@given(st.integers(1, 5000), st.floats(0, 4), st.integers(0, 5000))
def test_tokens_per_step_counts_steps_without_a_draft(drafts: int, per_draft: float, without: int) -> None:
    """(G - F) ÷ I = 1 + coverage × (MAL - 1), and the implied TPOT is S ÷ (G - F)."""
    outputs = drafts + without
    accepted = round(drafts * per_draft)
    seen = of(step_counts(drafts, accepted, outputs))
    assert seen.coverage[0] == pytest.approx(drafts / outputs)
    assert seen.tokens_per_step[0] == pytest.approx(1 + seen.coverage[0] * (seen.mal[0] - 1))
    assert seen.implied_tpot_seconds[0] == pytest.approx(outputs * 0.010 / (outputs + accepted))
    assert seen.step_seconds[0] == pytest.approx(0.010)


def test_step_time_over_length_holds_only_at_full_coverage() -> None:
    """Eight clients without drafts: a length of 4.73 on 45 drafts must not turn 16 ms a token into 3.5."""
    seen = of(step_counts(45, 168, 11_600))
    assert seen.mal[0] == pytest.approx(4.733, abs=1e-3)
    assert seen.coverage[0] == pytest.approx(0.0039, abs=1e-4)
    assert seen.implied_tpot_seconds[0] > 0.0098
    assert seen.step_seconds[0] / seen.mal[0] < 0.0022


def test_tokens_cut_off_at_the_end_of_a_request_were_not_delivered() -> None:
    """What was accepted past the end of a request is in the length and not in the tokens per step."""
    seen = of(step_counts(1000, 3500, 1000, trimmed=50))
    assert seen.mal[0] == 4.5
    assert seen.tokens_per_step[0] == pytest.approx(4.45)


def test_mal_is_not_speed() -> None:
    """n-gram drafts of length 4.59 give 2.96 tokens a step, not more than a draft model's 2.46 promises (case C05)."""
    per_row = {
        Counter.DRAFT_TOKENS: [4960.0, 6567.0],
        Counter.ACCEPTED_TOKENS: [3562.0, 3187.0],
        Counter.DECODE_OUTPUTS: [5376.0 - 3562.0 - 0.0, 5376.0 - 3187.0],
        Counter.GENERATION_TOKENS: [5376.0, 5376.0],
        Counter.FIRST_TOKENS: [0.0, 0.0],
    }
    seen = of(made.counts([], [993.0, 2189.0], more=per_row))
    assert seen.mal == pytest.approx([4.5871, 2.4559], abs=1e-4)
    assert seen.tokens_per_step == pytest.approx([2.9636, 2.4559], abs=1e-4)
    assert seen.coverage[1] == pytest.approx(1.0)


def test_batch_size_and_observed_tpot() -> None:
    """The mean batch is (I + F) ÷ N; the observed TPOT is decode time over tokens after the first."""
    counted = made.counts(
        [[50]],
        [100.0],
        more={
            Counter.DECODE_OUTPUTS: [380.0],
            Counter.FIRST_TOKENS: [20.0],
            Counter.ENGINE_STEPS: [100.0],
            Counter.OUTPUT_TOKENS: [1020.0],
            Counter.FINISHED_REQUESTS: [20.0],
            Counter.REQUEST_DECODE_SECONDS: [4.5],
        },
    )
    seen = of(counted)
    assert seen.batch_size[0] == 4.0
    assert seen.observed_tpot_seconds[0] == pytest.approx(0.0045)


def test_engine_steps_stand_in_for_request_steps() -> None:
    """An engine that only times its own steps still gives a step time."""
    counted = made.counts(
        [[1]], [2.0], more={Counter.ENGINE_STEPS: [100.0], Counter.ENGINE_STEP_SECONDS: [2.5]}
    )
    assert of(counted).step_seconds[0] == 0.025


@pytest.mark.parametrize("times", [1, 7])
def test_pooling_is_of_counts(times: int) -> None:
    """Two replicas pool to 2.1892, never to the mean 2.2864 of their lengths (case B01)."""
    state = np.zeros(1, windows.dtype(1, NUM_POSITIONS))
    for _ in range(times):
        windows.add(state, made.counts([[7, 4, 2, 2, 2]], [22.0], at=1.0), (60.0,))
        windows.add(state, made.counts([[8, 5, 5, 5, 4]], [15.0], at=2.0), (60.0,))
    assert estimates.from_sums(windows.total(state)).mal[0] == pytest.approx(2.1892, abs=5e-5)


# Intervals ----------------------------------------------------------------------------------------------


@given(st.integers(1, 10**6), st.lists(st.floats(0, 1), min_size=1, max_size=5))
def test_the_interval_holds_the_estimate(drafts: int, shares: list[float]) -> None:
    """The interval lies within 1 … 1 + k and holds the length, for any counts."""
    kept, accepted = float(drafts), []
    for share in shares:
        kept = float(round(kept * share))
        accepted.append(kept)
    seen = of(made.counts([accepted], [float(drafts)]))
    assert 1.0 <= seen.mal_low[0] <= seen.mal[0] <= seen.mal_high[0] <= 1.0 + len(shares) + 1e-9


def test_none_of_forty_is_decisive_for_a_half_and_not_for_a_tenth() -> None:
    """0 of 40 rules out an acceptance of 0.5 and does not rule out 0.07 (case A04)."""
    seen = of(made.counts([[0]], [40.0]))
    assert seen.mal_low[0] == 1.0
    assert 1.07 < seen.mal_high[0] < 1.25


def test_one_request_is_little_evidence() -> None:
    """Requests differ by a third: drafts of one of them leave the length open, those of a hundred do not (A12)."""
    one = of(made.counts([[2400, 1800, 1300]], [3000.0], more={Counter.FIRST_TOKENS: [1.0]}))
    many = of(made.counts([[2400, 1800, 1300]], [3000.0], more={Counter.FIRST_TOKENS: [100.0]}))
    assert one.mal_high[0] - one.mal_low[0] > 1.5
    assert many.mal_high[0] - many.mal_low[0] < 0.4


def test_estimates_are_per_row() -> None:
    """A stream's estimates are the same alone as among others."""
    rows = [[900.0, 500.0, 100.0], [0.0, 0.0, 0.0], [70.0, 70.0, 70.0]]
    together = of(made.counts(rows, [1000.0, 40.0, 70.0]))
    for n, drafts in enumerate((1000.0, 40.0, 70.0)):
        alone = of(made.counts([rows[n]], [drafts]))
        for name in estimates.Estimates.__slots__:
            assert np.array_equal(getattr(alone, name)[0], getattr(together, name)[n], equal_nan=True), name


def test_a_window_knows_what_was_counted_once() -> None:
    """Where this window's page lacks a counter that the stream has, the estimate is of the rest, not of zero drafts."""
    whole = made.counts([[5, 3]], [10.0])
    gone = replace(whole, values=np.full_like(whole.values, np.nan), accepted=np.zeros_like(whole.accepted))
    state = np.zeros(1, windows.dtype(1, NUM_POSITIONS))
    windows.add(state, whole, (60.0,))
    windows.add(state, replace(gone, positions=np.zeros(1, np.int64)), (60.0,))
    assert np.isnan(estimates.from_sums(windows.last(state)).mal[0])
    assert estimates.from_sums(windows.total(state)).mal[0] == 1.8
