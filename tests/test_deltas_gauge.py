"""A gauge becomes drafts only when it tells something new: public report sgl-project/sglang#4244 and its kin."""

from __future__ import annotations

import math

import numpy as np
import pytest

from monitor.core.counts import deltas, implied
from monitor.core.counts import readings as arrays
from monitor.core.pages.engines.base import NUM_COUNTERS, UNKNOWN, Counter, Evidence, Reading

DRAFTS, ACCEPTED, TOKENS = Counter.DRAFTS, Counter.ACCEPTED_TOKENS, Counter.GENERATION_TOKENS


def gauge(mal: float, tokens: float = UNKNOWN, running: float = 3.0, window: float = 120.0) -> Reading:
    """A reading of an engine that has only the mean of its last report."""
    counters = [UNKNOWN] * NUM_COUNTERS
    counters[TOKENS] = tokens
    return Reading(
        "m",
        "0",
        Evidence.GAUGE if mal > 0 else Evidence.NONE,
        tuple(counters),
        speculating=mal > 0,
        mean_acceptance_length=mal,
        window_drafts=window,
        running=running,
    )


def counted(*readings: Reading) -> list[tuple[float, float]]:
    """Drafts and accepted tokens of each interval between the readings, 15 s apart; NaN where not counted."""
    state = deltas.allocate(1, 4)
    found = []
    for index, reading in enumerate(readings):
        now = arrays.stack([reading], np.array([15.0 * (index + 1)]), np.array([UNKNOWN]), 4)
        counts, outcome = deltas.between(state, np.arange(1), now)
        if outcome[0] == deltas.Outcome.COUNTED:
            found.append((float(counts.values[0, DRAFTS]), float(counts.values[0, ACCEPTED])))
        elif index:
            found.append((math.nan, math.nan))
    return found


def test_a_changed_value_while_tokens_flow_is_worth_its_window() -> None:
    """The bonus token is in the gauge: 3.0 means two accepted tokens a draft."""
    assert counted(gauge(3.0, 1000), gauge(2.5, 2000)) == [(120, 180)]


def test_a_window_is_never_worth_more_than_the_cap() -> None:
    """The weight of a mean is not exported, so a large batch does not make it certain."""
    assert counted(gauge(3.0, 0), gauge(2.0, 9e5, window=40 * 256)) == [(implied.MOST_GAUGE_DRAFTS,) * 2]


@pytest.mark.parametrize(
    "after",
    [gauge(2.5, 1000, running=0.0), gauge(3.0, 1000), gauge(3.0, 1050), gauge(3.0, 1000, running=0.0)],
    ids=["changed after the end", "repeated, idle", "repeated, few tokens", "repeated, nothing runs"],
)
def test_what_is_not_new_is_worth_nothing(after: Reading) -> None:
    """A repeated value, and one that no tokens stand behind, are no evidence and no silence of the page."""
    assert counted(gauge(3.0, 1000), after) == [(0, 0)]


def test_a_repeated_value_counts_once_its_window_must_have_passed() -> None:
    """A draft that is never accepted reads exactly 1 for ever; tokens tell that it was set anew."""
    pages = [gauge(1.0, tokens) for tokens in (0, 100, 200, 300, 400, 500)]
    assert counted(*pages) == [(0, 0), (120, 0), (0, 0), (120, 0), (0, 0)]


def test_the_night_after_a_bad_batch_is_no_evidence() -> None:
    """Ten pages, two of them with a full window of tokens since the last: idle repeats are not bad windows."""
    tokens = [100_000, 100_900, 100_950, *[100_950] * 7]
    running = [3, 3, 3, 3, *[0] * 6]
    pages = [gauge(1.05, each, busy) for each, busy in zip(tokens, running, strict=True)]
    drafts = [each for each, _ in counted(*pages)]
    assert drafts == [120, *[0] * 8]


def test_zero_is_off_and_no_acceptance_length() -> None:
    """A working engine cannot read below 1: 0 says that speculation is off, and gives no drafts."""
    drafts, accepted = counted(gauge(0.0, 1000), gauge(0.0, 9000))[0]
    assert math.isnan(drafts)
    assert math.isnan(accepted)


def test_a_page_with_nothing_but_the_gauge_counts_when_it_changes() -> None:
    """Without any counter of tokens and without running requests a change must do."""
    only = [gauge(mal, running=UNKNOWN, window=40.0) for mal in (3.0, 3.0, 2.0)]
    assert counted(*only) == [(0, 0), (40, 40)]


def test_the_value_survives_a_saved_state() -> None:
    """What was seen is in the rows, so a monitor that restarts does not take an old value for news."""
    state = deltas.allocate(1, 4)
    for at in (15.0, 30.0):
        now = arrays.stack([gauge(3.0, 1000)], np.array([at]), np.array([UNKNOWN]), 4)
        state = np.frombuffer(state.tobytes(), state.dtype).copy()
        counts, _ = deltas.between(state, np.arange(1), now)
    assert counts.values[0, DRAFTS] == 0
