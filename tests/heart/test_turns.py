"""Turns of groups: who is waited for, when a turn is over, and what is counted in it."""

from __future__ import annotations

import numpy as np
import pytest

from monitor.core.detectors import base
from monitor.core.fleet import turns
from tests.heart.made_trials import row

STREAM = np.dtype(turns.STREAM_FIELDS)
GROUP = np.dtype(turns.GROUP_FIELDS)
START = 15.0 * 1e8


class Groups:
    """Two groups: rows 0, 2, 4 are of the first, 1 and 3 of the second."""

    def __init__(self) -> None:
        self.streams, self.groups = np.zeros(5, STREAM), np.zeros(2, GROUP)
        turns.allocate(self.streams, self.groups)
        self.streams["group"] = [0, 1, 0, 1, 0]

    def begin(self, seconds: float, *numbers: int) -> None:
        """Begin the next turn of these groups with news so long after the start."""
        turns.begin(self.streams, self.groups, np.array(numbers), np.full(len(numbers), START + seconds))

    def arrive(self, *rows: int) -> tuple[list[int], list[int]]:
        """Note news of these rows; return what is complete by them, and by which."""
        where = np.array(rows)
        complete, last = turns.arrive(self.streams, self.groups, where, self.streams["group"][where])
        return complete.tolist(), last.tolist()

    def part(self, *numbers: int) -> list[int]:
        """Return who takes part in the turn of these groups."""
        found: list[int] = turns.taking_part(self.streams, self.groups, np.array(numbers)).tolist()
        return found


def test_a_turn_is_a_period_of_the_clock() -> None:
    """It ends at the next multiple of its length, and news at its end or long before its begin are of another."""
    both = Groups()
    both.begin(4.0, 0, 1)
    assert both.groups["ends_at"].tolist() == [START + 15.0] * 2
    assert both.groups["over"].tolist() == [0, 0]
    assert both.groups["turn"].tolist() == [1, 1]
    for seconds, due in ((0.0, False), (14.9, False), (15.0, True), (-600.0, False), (-600.1, True)):
        assert turns.due(both.groups, np.array([1]), row(START + seconds)).tolist() == [due]


def test_who_was_there_is_waited_for() -> None:
    """The first turn waits for nobody; the next is complete with the last of those who had news in it."""
    both = Groups()
    both.begin(0.0, 0, 1)
    assert both.arrive(0, 1, 2) == ([], [])
    assert both.part(0, 1) == []
    turns.end(both.streams, both.groups, np.array([0, 1]))
    both.begin(15.0, 0, 1)
    assert both.groups["waiting"].tolist() == [2, 1]
    assert both.arrive(4, 0) == ([], [])
    assert both.arrive(1, 2) == ([0, 1], [1, 0])
    assert both.part(0, 1) == [0, 2, 1]
    assert both.part(1) == [1]
    turns.end(both.streams, both.groups, np.array([0]))
    assert both.groups["over"].tolist() == [1, 0]
    assert both.arrive(1, 2) == ([], [])
    both.begin(30.0, 0)
    assert both.groups["waiting"].tolist() == [3, 0]


def test_who_missed_a_turn_takes_part_from_the_next_but_one() -> None:
    """Like one that is new: its counts span two turns."""
    both = Groups()
    for seconds, rows in ((0.0, (0, 2, 4)), (15.0, (0, 2)), (30.0, (0, 2, 4))):
        both.begin(seconds, 0)
        both.arrive(*rows)
    assert both.part(0) == [0, 2]
    both.begin(45.0, 0)
    both.arrive(0, 2, 4)
    assert both.part(0) == [0, 2, 4]


@pytest.mark.parametrize(
    ("intervals", "seconds"),
    [
        ((15.0, 15.0, 15.0), 15.0),
        ((16.0, 5.0, 16.0), 15.0),
        ((17.0, 17.0, 1.0), 30.0),
        ((10.0, 60.0, 900.0), 60.0),
        ((900.0, 900.0, 900.0), 300.0),
    ],
)
def test_a_turn_is_as_long_as_the_usual_interval_asks_for(
    intervals: tuple[float, ...], seconds: float
) -> None:
    """The median interval in whole periods, one second late being none; five minutes at most."""
    both = Groups()
    both.begin(0.0, 0, 1)
    both.arrive(0, 1, 2, 3, 4)
    both.streams["interval"][[0, 2, 4]] = intervals
    both.streams["interval"][[1, 3]] = 15.0
    both.begin(20.0, 0, 1)
    assert both.groups["seconds"].tolist() == [seconds, 15.0]
    assert both.groups["ends_at"][0] == (np.floor((START + 20.0) / seconds) + 1.0) * seconds


def test_counts_add_up_until_the_turn_ends() -> None:
    """Sums and seconds of all intervals of a turn, from the begin of the first; what is used up begins anew."""
    both = Groups()
    sums = np.full((1, base.NUM_SUMS), 10.0)
    for number in range(3):
        turns.add(both.streams, np.array([2]), sums, row(START + 5.0 * number), row(5.0 + number))
    assert both.streams["sums"][2].tolist() == [30.0] * base.NUM_SUMS
    assert both.streams["covered"][2] == 18.0
    assert both.streams["interval"][2] == 7.0
    assert both.streams["began_at"][2] == START
    turns.end(both.streams, both.groups, np.array([1]))
    assert both.streams["sums"][2].any()
    turns.end(both.streams, both.groups, np.array([0]))
    assert not both.streams["sums"].any()
    turns.add(both.streams, np.array([2]), sums, row(START + 15.0), row(5.0))
    assert (both.streams["began_at"][2], both.streams["covered"][2]) == (START + 15.0, 5.0)
