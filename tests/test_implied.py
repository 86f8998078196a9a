"""What an engine does not count follows from what it does count, on differences, and never from the other way."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pytest

from monitor.core.counts import deltas
from monitor.core.counts import readings as arrays
from monitor.core.counts.deltas import Outcome
from monitor.core.pages.engines.base import NUM_COUNTERS, UNKNOWN, Counter, Evidence, Reading

if TYPE_CHECKING:
    from collections.abc import Mapping

STEPS, REQUEST_END, NONE = Evidence.STEPS, Evidence.REQUEST_END, Evidence.NONE


def reading(
    evidence: Evidence, counters: Mapping[Counter, float], *, k: int = 0, resolution: float = 0.0
) -> Reading:
    """A reading with these counters and no others."""
    values = [UNKNOWN] * NUM_COUNTERS
    for counter, value in counters.items():
        values[counter] = value
    return Reading("m", "0", evidence, tuple(values), num_speculative_tokens=k, resolution=resolution)


def after(*readings: Reading) -> tuple[deltas.Counts, list[Outcome]]:
    """The counts of the last of some readings, 15 s apart, and what became of each."""
    state = deltas.allocate(1, 4)
    outcomes = []
    for index, each in enumerate(readings):
        now = arrays.stack([each], np.array([15.0 * (index + 1)]), np.array([UNKNOWN]), 4)
        counts, outcome = deltas.between(state, np.arange(1), now)
        outcomes.append(Outcome(outcome[0]))
    return counts, outcomes


def test_accepted_tokens_are_what_verifications_and_prefill_do_not_explain() -> None:
    """SGLang's counters: 200 tokens of one request in 188 verifications are 11 accepted (sglang#13754)."""
    counters = (Counter.DRAFTS, Counter.GENERATION_TOKENS, Counter.FINISHED_REQUESTS)
    counts, _ = after(
        reading(REQUEST_END, dict.fromkeys(counters, 0.0)),
        reading(REQUEST_END, dict(zip(counters, (188.0, 200.0, 1.0), strict=True))),
    )
    assert counts.values[0, Counter.ACCEPTED_TOKENS] == 11
    assert counts.values[0, Counter.DECODE_OUTPUTS] == 188


def test_an_aborted_request_does_not_look_like_a_restart() -> None:
    """A request without a token makes the difference fall below zero for an interval: it is 0, and counted."""
    counters = (Counter.DRAFTS, Counter.GENERATION_TOKENS, Counter.FINISHED_REQUESTS)
    counts, outcomes = after(
        reading(REQUEST_END, dict(zip(counters, (188.0, 200.0, 1.0), strict=True))),
        reading(REQUEST_END, dict(zip(counters, (188.0, 200.0, 2.0), strict=True))),
    )
    assert outcomes[-1] is Outcome.COUNTED
    assert counts.values[0, Counter.ACCEPTED_TOKENS] == 0
    assert not counts.restarted[0]


@pytest.mark.parametrize(("k", "drafts"), [(3, 500.0), (0, math.nan)], ids=["known", "unknown"])
def test_draft_tokens_of_a_known_length_give_drafts(k: int, drafts: float) -> None:
    """Without k the number of drafts is unknown, and so is the acceptance (llama.cpp#27572)."""
    counters = (Counter.DRAFT_TOKENS, Counter.ACCEPTED_TOKENS)
    counts, _ = after(
        reading(STEPS, dict.fromkeys(counters, 0.0), k=k),
        reading(STEPS, dict(zip(counters, (1500.0, 900.0), strict=True)), k=k),
    )
    assert counts.values[0, Counter.DRAFTS] == pytest.approx(drafts, nan_ok=True)


def test_request_end_engines_get_their_decode_steps() -> None:
    """Each step delivers one token besides the accepted ones: coverage needs steps without a draft, too."""
    counters = (Counter.DRAFTS, Counter.ACCEPTED_TOKENS, Counter.GENERATION_TOKENS)
    counts, _ = after(
        reading(REQUEST_END, dict.fromkeys(counters, 0.0)),
        reading(REQUEST_END, dict(zip(counters, (100.0, 150.0, 1000.0), strict=True))),
    )
    assert counts.values[0, Counter.DECODE_OUTPUTS] == 850


def test_what_is_counted_is_left_alone() -> None:
    """An engine that counts drafts, accepted tokens and steps is never corrected."""
    counters = (Counter.DRAFTS, Counter.ACCEPTED_TOKENS, Counter.GENERATION_TOKENS, Counter.DECODE_OUTPUTS)
    values = (100.0, 150.0, 1000.0, 700.0)
    counts, _ = after(
        reading(STEPS, dict.fromkeys(counters, 0.0)), reading(STEPS, dict(zip(counters, values, strict=True)))
    )
    assert counts.values[0, list(counters)].tolist() == list(values)


def test_counters_of_another_kind_have_no_difference() -> None:
    """A page that falls back from step counters to request-end counters begins anew, without a count."""
    exact = {Counter.DRAFTS: 1000.0, Counter.ACCEPTED_TOKENS: 1500.0}
    late = {Counter.DRAFTS: 900.0, Counter.GENERATION_TOKENS: 2300.0, Counter.FINISHED_REQUESTS: 10.0}
    more = {Counter.DRAFTS: 1000.0, Counter.GENERATION_TOKENS: 2560.0, Counter.FINISHED_REQUESTS: 20.0}
    counts, outcomes = after(reading(STEPS, exact), reading(REQUEST_END, late), reading(REQUEST_END, more))
    assert outcomes == [Outcome.BASE, Outcome.BASE, Outcome.COUNTED]
    assert counts.values[0, [Counter.DRAFTS, Counter.ACCEPTED_TOKENS]].tolist() == [100, 150]


def test_a_pause_that_the_engine_announces_has_no_drafts() -> None:
    """Adaptive speculation at zero steps counts verifications that verify nothing: none of them is a draft."""

    def at(drafts: float, accepted: float, evidence: Evidence) -> Reading:
        return reading(
            evidence,
            {
                Counter.DRAFTS: drafts,
                Counter.ACCEPTED_TOKENS: accepted,
                Counter.GENERATION_TOKENS: drafts + accepted,
            },
        )

    busy = [at(1000, 1500, STEPS), at(5000, 1500, NONE), at(9000, 1500, NONE), at(9500, 1600, STEPS)]
    for end in (2, 3, 4):  # begins, lasts, ends
        counts, _ = after(*busy[:end])
        assert counts.values[0, Counter.DRAFTS] == 0
        assert counts.values[0, Counter.GENERATION_TOKENS] > 0
    counts, _ = after(*busy, at(10_000, 2400, STEPS))
    assert counts.values[0, [Counter.DRAFTS, Counter.ACCEPTED_TOKENS]].tolist() == [500, 800]


def test_a_counter_with_few_digits_waits_until_it_can_be_read() -> None:
    """Past a million llama.cpp prints tens: seven drafts read as none or as ten, so the next page spans them."""

    def at(drafts: float, accepted: float) -> Reading:
        return reading(
            REQUEST_END, {Counter.DRAFTS: drafts, Counter.ACCEPTED_TOKENS: accepted}, resolution=10.0
        )

    counts, outcomes = after(at(1_234_560, 10), at(1_234_560, 21), at(1_234_600, 60), at(1_234_800, 250))
    assert outcomes == [Outcome.BASE, Outcome.WAITING, Outcome.WAITING, Outcome.COUNTED]
    assert counts.values[0, [Counter.DRAFTS, Counter.ACCEPTED_TOKENS]].tolist() == [240, 240]


def test_an_idle_counter_with_few_digits_does_not_wait() -> None:
    """A page on which nothing moved is read: the stream is idle and not stale."""
    page = reading(REQUEST_END, {Counter.DRAFTS: 1e6, Counter.ACCEPTED_TOKENS: 10.0}, resolution=10.0)
    assert after(page, page)[1] == [Outcome.BASE, Outcome.COUNTED]


def test_a_batch_is_read_as_its_rows_are() -> None:
    """Rows of different engines in one batch give what each gives alone."""
    firsts = [
        reading(STEPS, {Counter.DRAFTS: 0.0, Counter.ACCEPTED_TOKENS: 0.0, Counter.DECODE_OUTPUTS: 0.0}),
        reading(
            REQUEST_END, {Counter.DRAFTS: 0.0, Counter.GENERATION_TOKENS: 0.0, Counter.FINISHED_REQUESTS: 0.0}
        ),
        reading(STEPS, {Counter.DRAFT_TOKENS: 0.0, Counter.ACCEPTED_TOKENS: 0.0}, k=3),
    ]
    seconds = [
        reading(STEPS, {Counter.DRAFTS: 10.0, Counter.ACCEPTED_TOKENS: 5.0, Counter.DECODE_OUTPUTS: 12.0}),
        reading(
            REQUEST_END,
            {Counter.DRAFTS: 188.0, Counter.GENERATION_TOKENS: 200.0, Counter.FINISHED_REQUESTS: 1.0},
        ),
        reading(STEPS, {Counter.DRAFT_TOKENS: 30.0, Counter.ACCEPTED_TOKENS: 12.0}, k=3),
    ]
    state = deltas.allocate(3, 4)
    for index, batch in enumerate((firsts, seconds)):
        now = arrays.stack(batch, np.full(3, 15.0 * (index + 1)), np.full(3, UNKNOWN), 4)
        counts, _ = deltas.between(state, np.arange(3), now)
    for row, (first, second) in enumerate(zip(firsts, seconds, strict=True)):
        alone, _ = after(first, second)
        np.testing.assert_array_equal(counts.values[row], alone.values[0])
