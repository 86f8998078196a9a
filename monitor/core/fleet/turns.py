"""The turns of a group: periods of clock time in which each of its replicas has its say once.

A turn is `PERIOD_SECONDS` long, or as many times that as the replicas' usual scrape interval asks for. Those
who had news in the turn before are waited for: a turn is over as soon as all of them have news, or when news
of the next period come. Who was not there in the turn before takes part from the next one on. So it does not
matter how scrapes are batched, as long as they come in time order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from monitor.core.detectors import base
from monitor.core.fleet import groupwise

if TYPE_CHECKING:
    from monitor.core.detectors.base import Bools, Floats, Indices, Ints, State

PERIOD_SECONDS = 15.0
"""Seconds of the shortest turn: the usual scrape interval."""

LONGEST_SECONDS = 300.0
"""Seconds of the longest turn: replicas scraped less often than every five minutes are not compared."""

LATENESS = 1.0
"""Seconds that a scrape interval may be longer than a turn and still be one."""

SET_BACK_SECONDS = 600.0
"""Seconds before its turn from which on news mean that the clock was set back."""

STREAM_FIELDS = [
    ("group", "i8"),  # its number, `NOBODY`: none
    ("turn", "i8"),  # last turn it had news in
    ("part", "i8"),  # 1 where it takes part in this turn
    ("interval", "f8"),  # last interval, seconds
    ("began_at", "f8"),  # first interval of the turn, unix seconds
    ("covered", "f8"),  # seconds that the turn's intervals span
    ("sums", "f8", base.NUM_SUMS),  # of the turn, columns as in `base`
]
GROUP_FIELDS = [
    ("turn", "i8"),  # number of the turn under way
    ("over", "i8"),  # 1 once it was closed
    ("waiting", "i8"),  # replicas that have no news in it yet
    ("seconds", "f8"),  # how long a turn lasts
    ("ends_at", "f8"),  # unix seconds
]
NOBODY, NEVER = -1, -2
"""No group, and a turn that never was."""


def allocate(streams: State, groups: State) -> None:
    """Set fresh rows to what stands for never seen."""
    streams["group"], streams["turn"] = NOBODY, NEVER
    groups["over"] = 1
    groups["seconds"] = PERIOD_SECONDS


def due(groups: State, group_of_row: Ints, times: Floats) -> Bools:
    """Return which news [B] are of another period than the turn of their group."""
    ends, seconds = groups["ends_at"][group_of_row], groups["seconds"][group_of_row]
    result: Bools = (times >= ends) | (times < ends - seconds - SET_BACK_SECONDS)
    return result


def begin(streams: State, groups: State, numbers: Ints, times: Floats) -> None:
    """Begin the next turn of the groups `numbers` (ascending) with the news at `times` [G]."""
    chosen = np.zeros(len(groups) + 1, bool)
    chosen[numbers] = True
    members = np.flatnonzero(chosen[streams["group"]])
    group_of_row = streams["group"][members]
    there = members[streams["turn"][members] == groups["turn"][group_of_row]]
    if len(there):
        there = there[np.argsort(streams["group"][there], kind="stable")]
        which = np.searchsorted(numbers, streams["group"][there])
        first = groupwise.starts(which)
        usual = groupwise.median(streams["interval"][there], which, first)
        periods = np.ceil((usual - LATENESS) / PERIOD_SECONDS) * PERIOD_SECONDS
        groups["seconds"][numbers[which[first]]] = base.clip(periods, PERIOD_SECONDS, LONGEST_SECONDS)
    groups["waiting"][numbers] = np.bincount(streams["group"][there], minlength=len(groups))[numbers]
    groups["turn"][numbers] += 1
    groups["over"][numbers] = 0
    seconds = groups["seconds"][numbers]
    groups["ends_at"][numbers] = (np.floor(times / seconds) + 1.0) * seconds


def arrive(streams: State, groups: State, rows: Indices, group_of_row: Ints) -> tuple[Ints, Indices]:
    """Note that `rows` [B] have news; return the groups that are complete by them, and by which news.

    No row stands twice. What completes a group is the last of those that were waited for.
    """
    turn = groups["turn"][group_of_row]
    new = streams["turn"][rows] != turn
    waited = new & (streams["turn"][rows] == turn - 1)
    streams["part"][rows] = np.where(new, waited, streams["part"][rows])
    streams["turn"][rows] = turn
    np.subtract.at(groups["waiting"], group_of_row[waited], 1)
    complete = np.unique(group_of_row[waited])
    complete = complete[(groups["waiting"][complete] <= 0) & (groups["over"][complete] == 0)]
    last = np.full(len(groups), NOBODY)
    where = np.flatnonzero(waited)
    last[group_of_row[where]] = where  # of several, the last one stays
    return complete, last[complete]


def add(streams: State, rows: Indices, sums: Floats, began_at: Floats, seconds: Floats) -> None:
    """Add the counts of intervals to what is compared at the end of the turn."""
    empty = streams["sums"][rows, base.DRAFTS] <= 0.0
    streams["began_at"][rows] = np.where(empty, began_at, streams["began_at"][rows])
    streams["covered"][rows] = np.where(empty, 0.0, streams["covered"][rows]) + seconds
    streams["interval"][rows] = seconds
    streams["sums"][rows] += sums


def taking_part(streams: State, groups: State, numbers: Ints) -> Indices:
    """Return the rows that take part in the turn of the groups `numbers`, group after group."""
    chosen = np.zeros(len(groups) + 1, bool)
    chosen[numbers] = True
    members = np.flatnonzero(chosen[streams["group"]])
    group_of_row = streams["group"][members]
    rows = members[
        (streams["turn"][members] == groups["turn"][group_of_row]) & (streams["part"][members] > 0)
    ]
    result: Indices = rows[np.argsort(streams["group"][rows], kind="stable")]
    return result


def end(streams: State, groups: State, numbers: Ints) -> None:
    """End the turn of the groups: their counts are used up."""
    chosen = np.zeros(len(groups) + 1, bool)
    chosen[numbers] = True
    streams["sums"][chosen[streams["group"]]] = 0.0
    groups["over"][numbers] = 1
