"""Two readings become what happened between them: never negative, never counted twice, never out of thin air."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from monitor.core.counts import deltas, restarts
from monitor.core.counts import readings as arrays
from monitor.core.counts.deltas import Outcome
from monitor.core.pages.engines.base import UNKNOWN, Counter
from tests import made
from tests.made import Marks

if TYPE_CHECKING:
    from collections.abc import Sequence

    from monitor.core.counts.deltas import Counts
    from monitor.core.pages.engines.base import Reading

NUM_POSITIONS = 8
DRAFTS, TOKENS, ACCEPTED, GENERATED = range(4)


class Streams:
    """Some streams of one pipeline, read together or one by one."""

    def __init__(self, count: int = 1) -> None:
        self.state = deltas.allocate(count, NUM_POSITIONS)

    def read(
        self, at: float, *readings: Reading, rows: Sequence[int] | None = None, since: float = UNKNOWN
    ) -> tuple[Counts, list[Outcome]]:
        """Read the streams `rows` (all) at `at` and return what was counted and what became of each reading."""
        chosen = np.arange(len(self.state)) if rows is None else np.array(rows)
        state = self.state[chosen]
        now = arrays.stack(
            readings,
            np.full(len(chosen), at),
            np.full(len(chosen), since),
            NUM_POSITIONS,
        )
        counts, outcome = deltas.between(state, chosen, now)
        self.state[chosen] = state
        return counts, [Outcome(each) for each in outcome]

    def drafts(self, at: float, reading: Reading, since: float = UNKNOWN) -> float | Outcome:
        """Read the only stream; return the counted drafts, or why nothing was counted."""
        counts, (outcome,) = self.read(at, reading, since=since)
        return float(counts.values[0, DRAFTS]) if outcome == Outcome.COUNTED else outcome


def test_the_difference_is_counted() -> None:
    """The first reading is the base; the next one's growth is counted, per counter and per position."""
    stream = Streams()
    base = made.reading((60, 40, 20), drafts=100, more={Counter.GENERATION_TOKENS: 230})
    counts, outcome = stream.read(10.0, base)
    assert (len(counts.rows), outcome) == (0, [Outcome.BASE])
    later = made.reading((90, 55, 25), drafts=150, more={Counter.GENERATION_TOKENS: 330})
    counts, outcome = stream.read(25.0, later)
    assert outcome == [Outcome.COUNTED]
    assert counts.values[0, :4].tolist() == [50, 150, 50, 100]
    assert np.isnan(counts.values[0, 4:]).all()
    assert counts.accepted[0].tolist() == [30, 15, 5, 0, 0, 0, 0, 0]
    assert (counts.at[0], counts.seconds[0], counts.positions[0]) == (25.0, 15.0, 3)
    assert not counts.restarted[0]
    assert not counts.gap[0]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param({}, {}, id="no mark: the counters fall by half"),
        pytest.param({"started_at": 1.0}, {"started_at": 20.0}, id="the process started later"),
        pytest.param({"created_at": 1.0}, {"created_at": 20.0}, id="the counters were created later"),
        pytest.param(
            {"started_at": 1.0, "created_at": 2.0},
            {"started_at": 1.0, "created_at": 20.0},
            id="only the counters are new: the engine was rebuilt within its process",
        ),
    ],
)
def test_a_restart_counts_from_zero(before: Marks, after: Marks) -> None:
    """After a restart the new counters are the growth, and nothing of the old life is subtracted."""
    stream = Streams()
    stream.drafts(0.0, made.reading((600, 300), drafts=1000, **before))
    stream.drafts(15.0, made.reading((660, 330), drafts=1100, **before))
    counts, _ = stream.read(30.0, made.reading((12, 6), drafts=20, **after))
    assert counts.restarted.tolist() == [True]
    assert counts.values[0, :3].tolist() == [20, 40, 18]
    assert counts.accepted[0, :2].tolist() == [12, 6]
    assert stream.state["restarts"].tolist() == [1]
    assert stream.drafts(45.0, made.reading((18, 9), drafts=30, **after)) == 10


def test_a_restart_that_outgrew_the_old_life_is_seen_by_its_start_time() -> None:
    """Counters above the old ones are still those of a new life where the start time says so."""
    stream = Streams()
    stream.drafts(0.0, made.reading((6,), drafts=10, started_at=-50.0))
    counts, _ = stream.read(600.0, made.reading((900,), drafts=2000, started_at=100.0))
    assert (counts.restarted[0], counts.values[0, DRAFTS], counts.seconds[0]) == (True, 2000, 500.0)


def test_a_start_time_that_trembles_is_the_same() -> None:
    """A start time computed anew for each page differs by parts of a second: that is no restart."""
    stream = Streams()
    stream.drafts(0.0, made.reading((6,), drafts=10, started_at=1000.0))
    assert stream.drafts(15.0, made.reading((12,), drafts=20, started_at=1000.4)) == 10
    assert stream.state["restarts"].tolist() == [0]


def test_a_torn_page_is_no_restart() -> None:
    """One family a step behind is held back, with and without a start time, and the next page spans both."""
    for marks in (Marks(), Marks(started_at=5.0), Marks(started_at=5.0, created_at=6.0)):
        stream = Streams()
        stream.drafts(0.0, made.reading((600, 300), drafts=1000, **marks))
        torn = made.reading((599, 305), drafts=1010, **marks)
        assert stream.drafts(15.0, torn) == Outcome.HELD
        counts, _ = stream.read(30.0, made.reading((620, 310), drafts=1030, **marks))
        assert counts.values[0, :3].tolist() == [30, 60, 30]
        assert (counts.seconds[0], counts.restarted[0]) == (30.0, False)


def test_a_page_from_a_cache_is_no_restart() -> None:
    """An old page served again and again under new times counts nothing, and the next fresh page all of it."""
    for marks in (Marks(), Marks(started_at=5.0)):
        stream = Streams()
        old = made.reading((540,), drafts=900, **marks)
        stream.drafts(0.0, old)
        assert stream.drafts(15.0, made.reading((600,), drafts=1000, **marks)) == 100
        assert [stream.drafts(30.0 + 15 * n, old) for n in range(5)] == [Outcome.HELD] * 5
        assert stream.drafts(120.0, made.reading((720,), drafts=1200, **marks)) == 200


def test_an_older_process_behind_the_same_address_is_not_counted() -> None:
    """While two processes answer in turn, only the newer one counts, and its counters once."""
    stream = Streams()
    old, new = Marks(started_at=100.0), Marks(started_at=900.0)
    stream.drafts(1000.0, made.reading((50_000,), drafts=100_000, **old))
    assert stream.drafts(1015.0, made.reading((5,), drafts=10, **new)) == 10
    for turn in range(6):
        at = 1030.0 + 30 * turn
        assert stream.drafts(at, made.reading((50_100,), drafts=100_100 + turn, **old)) == Outcome.HELD
        assert stream.drafts(at + 15, made.reading((10,), drafts=20.0 + 10 * turn, **new)) == 10
    assert stream.state["restarts"].tolist() == [1]


@pytest.mark.parametrize("began", [500.0, 560.0], ids=["the clock was set back", "the same start"])
def test_counters_that_stay_down_are_believed_in_the_end(began: float) -> None:
    """Against its start time's word a process is believed to be new when its counters stay down and move."""
    stream = Streams()
    stream.drafts(1000.0, made.reading((600,), drafts=1000, started_at=560.0))
    seen = [
        stream.drafts(1015.0 + 15 * n, made.reading((6 + n,), drafts=10 + n, started_at=began))
        for n in range(30)
    ]
    patient = restarts.PATIENT_PAGES
    assert seen == [Outcome.HELD] * patient + [10 + patient] + [1.0] * (29 - patient)


def test_late_and_doubled_pages_are_left_out() -> None:
    """A page older than the last one, or as old, changes nothing but the number of late ones in a row."""
    stream = Streams()
    stream.drafts(0.0, made.reading((6,), drafts=10))
    assert stream.drafts(30.0, made.reading((18,), drafts=30)) == 20
    before = stream.state.copy()
    assert stream.drafts(15.0, made.reading((12,), drafts=20)) == Outcome.LATE
    assert stream.drafts(30.0, made.reading((19,), drafts=31)) == Outcome.DUPLICATE
    assert stream.state["late"].tolist() == [1]
    stream.state["late"] = 0
    assert stream.state.tobytes() == before.tobytes()
    assert stream.drafts(45.0, made.reading((24,), drafts=40)) == 10


def test_a_gap_is_spanned_and_said() -> None:
    """An interval much longer than usual is counted as one, marked, and hardly moves what is usual."""
    stream = Streams()
    for n in range(10):
        counts, _ = stream.read(15.0 * n, made.reading((6.0 * n,), drafts=10.0 * n))
    assert not counts.gap[0]
    counts, _ = stream.read(735.0, made.reading((300,), drafts=500))
    assert (counts.gap[0], counts.seconds[0], counts.values[0, DRAFTS]) == (True, 600.0, 410)
    assert 15.0 <= stream.state["interval"][0] < 18.0


def test_a_new_rhythm_is_learnt() -> None:
    """Where the interval changes for good, a page at the new interval stops being a gap."""
    stream = Streams()
    at = 0.0
    gaps = []
    for n, interval in enumerate([2.0] * 20 + [60.0] * 60 + [5.0] * 60):
        at += interval
        counts, _ = stream.read(at, made.reading((6.0 * n,), drafts=10.0 * n))
        gaps.append(bool(counts.gap.any()))
    assert gaps[20]
    assert not any(gaps[70:])
    assert stream.state["interval"][0] == pytest.approx(5.0, rel=0.05)


def test_positions_come_and_go() -> None:
    """Five positions, then three, then five within a life: every position keeps its own count."""
    stream = Streams()
    stream.read(0.0, made.reading((50, 40, 30, 20, 10), drafts=100))
    whole = {Counter.DRAFT_TOKENS: 560.0, Counter.ACCEPTED_TOKENS: 168.0}
    counts, _ = stream.read(15.0, made.reading((60, 45, 33), drafts=120, more=whole))
    assert counts.accepted[0].tolist() == [10, 5, 3, 0, 0, 0, 0, 0]
    assert (counts.positions[0], counts.num_speculative_tokens[0]) == (3, 3)
    counts, _ = stream.read(30.0, made.reading((65, 48, 35, 22, 11), drafts=130))
    assert counts.accepted[0].tolist() == [5, 3, 2, 2, 1, 0, 0, 0]


def test_a_restart_with_fewer_positions_forgets_the_others() -> None:
    """Positions that a new life does not have count from zero when a third life has them again."""
    stream = Streams()
    stream.read(0.0, made.reading((50, 40, 30, 20, 10), drafts=100, started_at=1.0))
    counts, _ = stream.read(15.0, made.reading((5, 4, 3), drafts=10, started_at=10.0))
    assert counts.accepted[0].tolist() == [5, 4, 3, 0, 0, 0, 0, 0]
    counts, _ = stream.read(30.0, made.reading((7, 6, 5, 4, 3), drafts=10, started_at=20.0))
    assert counts.accepted[0].tolist() == [7, 6, 5, 4, 3, 0, 0, 0]


def test_a_stream_that_appears_later_counts_from_zero() -> None:
    """A stream on a page whose target was read before without it counts from zero since that page."""
    stream = Streams()
    counts, outcome = stream.read(30.0, made.reading((6,), drafts=10), since=15.0)
    assert outcome == [Outcome.COUNTED]
    assert (counts.values[0, DRAFTS], counts.seconds[0]) == (10, 15.0)


def test_a_counter_that_appears_later_counts_from_zero() -> None:
    """A counter without a series until its first event (Ray, llama.cpp) starts at zero, after a restart too."""
    stream = Streams()
    stream.read(0.0, made.reading((), drafts=100))
    counts, _ = stream.read(15.0, made.reading((3, 1), drafts=110))
    assert (counts.values[0, ACCEPTED], counts.accepted[0, 0]) == (4, 3)
    counts, _ = stream.read(30.0, made.reading((), drafts=5))
    assert counts.restarted[0]
    assert math.isnan(counts.values[0, ACCEPTED])
    counts, _ = stream.read(45.0, made.reading((2, 1), drafts=15))
    assert (counts.restarted[0], counts.values[0, DRAFTS], counts.values[0, ACCEPTED]) == (False, 10, 3)


@pytest.mark.parametrize(
    ("counter", "value"),
    [
        pytest.param(Counter.DRAFTS, UNKNOWN, id="drafts unreadable"),
        pytest.param(Counter.ACCEPTED_TOKENS, math.inf, id="accepted infinite"),
        pytest.param(Counter.DRAFT_TOKENS, -1.0, id="draft tokens negative"),
        pytest.param(Counter.DRAFTS, 1e300, id="drafts beyond any counter"),
    ],
)
def test_speculation_counts_all_or_nothing(counter: Counter, value: float) -> None:
    """Where one of speculation's counters is unreadable the others wait with it; the rest of the page counts."""
    assert_waits(made.reading((66, 33), drafts=110, more={Counter.GENERATION_TOKENS: 550, counter: value}))


@pytest.mark.parametrize("accepted", [(66.0, UNKNOWN), (-1.0, 33.0), ()], ids=str)
def test_speculation_waits_for_every_position(accepted: tuple[float, ...]) -> None:
    """Where a position is unreadable or all are gone, speculation's counters wait for the next page."""
    whole = made.reading((66, 33), drafts=110, more={Counter.GENERATION_TOKENS: 550})
    assert_waits(replace(whole, accepted=accepted))


def assert_waits(spoilt: Reading) -> None:
    """Read a page, the spoilt one and a page that spans it."""
    stream = Streams()
    stream.read(0.0, made.reading((60, 30), drafts=100, more={Counter.GENERATION_TOKENS: 500}))
    counts, outcome = stream.read(15.0, spoilt)
    assert outcome == [Outcome.COUNTED]
    assert np.isnan(counts.values[0, :3]).all()
    assert (counts.accepted[0].sum(), counts.positions[0], counts.values[0, GENERATED]) == (0, 0, 50)
    counts, _ = stream.read(30.0, made.reading((72, 36), drafts=120, more={Counter.GENERATION_TOKENS: 600}))
    assert counts.values[0, :4].tolist() == [20, 40, 18, 50]
    assert counts.accepted[0, :2].tolist() == [12, 6]


def test_more_positions_than_there_is_room_for_are_cut() -> None:
    """A page with absurdly many positions is read as far as there is room."""
    stream = Streams()
    stream.read(0.0, made.reading([10.0] * 40, drafts=10))
    counts, _ = stream.read(15.0, made.reading([20.0] * 40, drafts=20))
    assert counts.accepted[0].tolist() == [10.0] * NUM_POSITIONS


# Random lives -------------------------------------------------------------------------------------------

_growth = st.tuples(st.integers(0, 50), st.lists(st.floats(0, 1), min_size=3, max_size=3))


@st.composite
def _lives(draw: st.DrawFn) -> list[Reading]:
    """Return the readings of one stream: growing counters, restarts with a new start time in between."""
    readings = []
    drafts, accepted, started = 0, [0, 0, 0], 1.0
    for growth, shares in draw(st.lists(_growth, min_size=2, max_size=12)):
        if draw(st.integers(0, 5)) == 0:
            drafts, accepted, started = 0, [0, 0, 0], started + 100.0
        drafts += growth
        kept = growth
        for j, share in enumerate(shares):
            kept = int(kept * share)
            accepted[j] += kept
        readings.append(made.reading(tuple(accepted), drafts=drafts, started_at=started))
    return readings


def _sum(readings: Sequence[Reading]) -> tuple[list[float], int]:
    """Return the counted totals and restarts of readings 15 s apart."""
    stream = Streams()
    total = np.zeros(3 + NUM_POSITIONS)
    for n, reading in enumerate(readings):
        counts, _ = stream.read(15.0 * n, reading)
        for row in range(len(counts.rows)):
            assert (counts.values[row, :3] >= 0).all()
            assert (counts.accepted[row] >= 0).all()
            assert counts.seconds[row] > 0
            total += np.concatenate((counts.values[row, :3], counts.accepted[row]))
    return total.tolist(), int(stream.state["restarts"][0])


@given(_lives(), st.data())
def test_pages_left_out_within_a_life_change_no_sum(readings: list[Reading], data: st.DataObject) -> None:
    """delta(a, c) = delta(a, b) + delta(b, c): any pages of a life but its last may be missing; nothing is negative."""
    last = [
        n
        for n in range(len(readings))
        if n + 1 == len(readings) or readings[n + 1].started_at != readings[n].started_at
    ]
    kept = [n for n in range(len(readings)) if n == 0 or n in last or data.draw(st.booleans())]
    assert _sum([readings[n] for n in kept]) == _sum(readings)


_noise = st.lists(
    st.tuples(
        st.sampled_from([0.0, 5.0, 15.0, 15.0, 15.0, 100.0, -10.0]),
        st.sampled_from([0, 1, 10, 900, -1, -5, -800]),
        st.sampled_from([UNKNOWN, 1.0, 1.0, 50.0]),
    ),
    max_size=30,
)


@given(_noise)
@settings(max_examples=300)
def test_whatever_comes_nothing_is_negative(steps: list[tuple[float, int, float]]) -> None:
    """Pages in any order, falling, torn or with wrong start times never give a negative count or length."""
    stream = Streams()
    at, drafts = 0.0, 1000
    for seconds, growth, started_at in steps:
        at += seconds
        drafts = max(drafts + growth, 0)
        counts, _ = stream.read(
            at, made.reading((drafts // 2, drafts // 4), drafts=drafts, started_at=started_at)
        )
        assert not (counts.values < 0).any()
        assert not (counts.accepted < 0).any()
        assert not (counts.seconds <= 0).any()


@given(st.lists(_lives(), min_size=2, max_size=5), st.data())
def test_how_streams_are_batched_changes_nothing(lives: list[list[Reading]], data: st.DataObject) -> None:
    """Reading streams together, one by one, or in any grouping leaves the same state and the same counts."""
    together, apart = Streams(len(lives)), Streams(len(lives))
    for n in range(min(map(len, lives))):
        readings = [life[n] for life in lives]
        counts, _ = together.read(15.0 * n, *readings)
        order = data.draw(st.permutations(range(len(lives))))
        cut = data.draw(st.integers(0, len(lives)))
        for rows in (order[:cut], order[cut:]):
            if rows:
                some, _ = apart.read(15.0 * n, *(readings[row] for row in rows), rows=rows)
                for index, row in enumerate(some.rows):
                    same = np.flatnonzero(counts.rows == row)[0]
                    for field in type(counts).__slots__:
                        first, second = getattr(counts, field)[same], getattr(some, field)[index]
                        assert np.array_equal(first, second, equal_nan=field == "values"), field
        assert together.state.tobytes() == apart.state.tobytes()
