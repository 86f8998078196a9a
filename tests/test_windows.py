"""Counts add up over windows of any length, whatever the scrape interval."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.core.counts import windows
from monitor.core.pages.engines.base import Counter
from tests import made

LENGTHS = (60.0, 300.0, 3600.0)
NUM_POSITIONS = 8
DRAFTS = windows.COUNTERS.start + Counter.DRAFTS


def begin(num_rows: int = 1) -> np.ndarray[tuple[int, ...], np.dtype[np.void]]:
    """Return the state of streams of which nothing was counted."""
    return np.zeros(num_rows, windows.dtype(len(LENGTHS), NUM_POSITIONS))


def drafts_over(state: np.ndarray[tuple[int, ...], np.dtype[np.void]], window: int, now: float) -> float:
    """Return the drafts of the first stream in one window."""
    sums = windows.over(state, window, LENGTHS[window], np.full(len(state), now))
    return float(sums.vectors[0, DRAFTS])


_intervals = st.lists(
    st.tuples(st.sampled_from([0.5, 2.0, 15.0, 60.0, 700.0, 9000.0]), st.integers(0, 99)), max_size=60
)


@given(_intervals, st.sampled_from([0.0, 1.0, 59.0, 4000.0]))
def test_a_window_holds_the_last_twelve_slots(intervals: list[tuple[float, int]], later: float) -> None:
    """A window's sum is that of the intervals that ended in its last twelve slots, and of no other."""
    state = begin()
    at = 1_700_000_000.0
    ends = []
    for seconds, drafts in intervals:
        at += seconds
        windows.add(state, made.counts([[drafts]], [drafts], at=at, seconds=seconds), LENGTHS)
        ends.append((at, drafts))
    for window, length in enumerate(LENGTHS):
        slot = length / windows.SLOTS
        oldest = (at + later) // slot - windows.SLOTS
        assert drafts_over(state, window, at + later) == sum(
            drafts for end, drafts in ends if end // slot > oldest
        )
    assert windows.total(state).vectors[0, DRAFTS] == sum(drafts for _, drafts in ends)


@pytest.mark.parametrize("interval", [1.0, 2.0, 15.0, 25.0])
@pytest.mark.parametrize("window", [0, 1, 2])
def test_a_window_is_as_long_as_it_says(interval: float, window: int) -> None:
    """With a steady flow a window holds no more than its length's worth, and at least eleven twelfths less one look."""
    state = begin()
    length = LENGTHS[window]
    for n in range(1, int(2 * length / interval) + 5):
        windows.add(state, made.counts([[interval]], [interval], at=n * interval, seconds=interval), LENGTHS)
        if n * interval > length:
            held = drafts_over(state, window, n * interval)
            assert length * 11 / 12 - interval <= held <= length + interval
            sums = windows.over(state, window, length, np.array([n * interval]))
            assert sums.vectors[0, windows.SECONDS] == held


def test_the_last_interval_stands_alone() -> None:
    """`last` is the newest interval, with its length and its positions."""
    state = begin()
    windows.add(state, made.counts([[9, 5, 1]], [10], at=15.0), LENGTHS)
    windows.add(state, made.counts([[4, 3]], [6], at=20.0, seconds=5.0), LENGTHS)
    sums = windows.last(state)
    assert sums.vectors[0, windows.SECONDS] == 5.0
    assert sums.vectors[0, DRAFTS] == 6
    assert sums.vectors[0, windows.POSITIONS].tolist() == [4, 3, 0, 0, 0, 0, 0, 0]
    assert (sums.positions[0], sums.num_speculative_tokens[0]) == (2, 2)


def test_the_total_keeps_every_position() -> None:
    """Over everything counted, positions that a later configuration does not have stay."""
    state = begin()
    windows.add(state, made.counts([[9, 5, 1]], [10], at=15.0), LENGTHS)
    windows.add(state, made.counts([[4, 3]], [6], at=20.0), LENGTHS)
    sums = windows.total(state)
    assert sums.positions[0] == 3
    assert sums.vectors[0, windows.POSITIONS][:3].tolist() == [13, 8, 1]


def test_what_no_page_has_is_unknown() -> None:
    """A counter that was never seen is unknown, one that was seen once and not to-day is known."""
    state = begin()
    windows.add(state, made.counts([[1]], [1], at=1.0, more={Counter.GENERATION_TOKENS: [5]}), LENGTHS)
    windows.add(state, made.counts([[1]], [1], at=2.0), LENGTHS)
    known = windows.last(state).known[0]
    assert known[Counter.GENERATION_TOKENS]
    assert not known[Counter.DECODE_SECONDS]


def test_streams_do_not_touch_each_other() -> None:
    """Each row is what it would be alone, also where their times differ by hours."""
    together = begin(3)
    rows = [made.counts([[n, 1]], [5 + n], at=1000.0 + 5000 * n) for n in range(3)]
    for n in (0, 1, 2, 1, 0):
        row = together[n : n + 1]
        windows.add(row, rows[n], LENGTHS)
    for n, times in enumerate((2, 2, 1)):
        alone = begin()
        for _ in range(times):
            windows.add(alone, rows[n], LENGTHS)
        assert alone.tobytes() == together[n : n + 1].tobytes()


@pytest.mark.parametrize("interval", [2.0, 15.0, 60.0])
@pytest.mark.parametrize("since", [20.0, 200.0, 1500.0])
def test_before_and_after_a_change_are_told_apart(interval: float, since: float) -> None:
    """The sums before a change hold no draft of after it, and those after it none of before."""
    state = begin()
    end = 8000.0
    change = end - since
    at = 0.0
    while at < end:
        at += interval
        drafts = interval * (1000.0 if at - interval >= change else 1.0)
        windows.add(state, made.counts([[drafts]], [drafts], at=at, seconds=interval), LENGTHS)
    before, after = windows.around(state, change, LENGTHS)
    rate_before = before.vectors[0, DRAFTS] / before.vectors[0, windows.SECONDS]
    assert rate_before == 1.0
    rate_after = after.vectors[0, DRAFTS] / after.vectors[0, windows.SECONDS]
    assert rate_after == 1000.0 or since < 2 * interval
