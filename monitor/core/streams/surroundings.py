"""What the state knows around a change of a stream, or of a whole model: what causes are weighed by."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from monitor.core.counts import windows
from monitor.core.events.attribution.signs import Peers, Surroundings
from monitor.core.pages.engines.base import Counter
from monitor.core.streams import told

if TYPE_CHECKING:
    from collections.abc import Sequence

    from monitor.core.counts.windows import Sums
    from monitor.core.detectors.base import Alarm
    from monitor.core.events import Event
    from monitor.core.events.attribution.signs import Mark
    from monitor.core.streams import State

MOST_PEERS = 16
"""Replicas that a stream is held against: enough to tell one from all, whatever the size of the model."""

ALIKE_SHARE = 1.0 / 3.0
"""A peer moved alike where it moved the same way by a third of the stream's own move or more."""

LEAST_DRAFTS = 200.0
"""Drafts on each side below which a peer's move is mostly chance: a standard error of a tenth of a token."""


@dataclass(frozen=True, slots=True)
class ChangePoint:
    """A change point with its range, until when it is looked at, and what is known of it (unix seconds).

    `explained` and `unexplained` are the logits that traffic explains of the move by what it did to this
    stream before, and the rest. `gradual`: it slid rather than fell.
    """

    at: float
    earliest: float
    latest: float
    until: float
    explained: float = 0.0
    unexplained: float = 0.0
    gradual: bool = False


def of_alarm(alarm: Alarm) -> ChangePoint:
    """Return the change of an alarm, as far as it shows when it is raised."""
    return ChangePoint(
        alarm.change_point_at,
        alarm.change_point_low,
        alarm.change_point_high,
        alarm.raised_at,
        alarm.explained,
        alarm.unexplained,
        gradual=_slid(alarm.kind, alarm.detector),
    )


def of_event(event: Event, now: float) -> ChangePoint:
    """Return the change of an open event, as far as it shows at `now`; what traffic explains is not said."""
    return ChangePoint(
        event.change_point_at,
        event.change_point_low,
        event.change_point_high,
        now,
        gradual=_slid(event.kind, event.detector),
    )


def of_stream(state: State, row: int, change: ChangePoint, before: Sums, after: Sums) -> Surroundings:
    """Return what is known around a change of one stream; `before` and `after` are its sums on both sides."""
    return Surroundings(
        change_point=(change.earliest, change.latest),
        interval=float(state.ledger["interval"][row]),
        marks=marks(state, row),
        before=before,
        after=after,
        explained=change.explained,
        unexplained=change.unexplained,
        gradual=change.gradual,
        peers=_peers(state, row, change),
    )


def of_group(
    state: State, group: int, rows: Sequence[int], change: ChangePoint, interval: float
) -> Surroundings:
    """Return what is known around a change of a model: marks of its `rows`, and the sums of some."""
    sides = [_sides(state, row, change) for row in rows[:MOST_PEERS]]
    members = set(rows)
    others = [row for row in _of_group(state, group) if row not in members]
    found = {mark.text: mark for row in rows for mark in marks(state, row)}
    return Surroundings(
        change_point=(change.earliest, change.latest),
        interval=interval,
        marks=tuple(found.values()),
        before=_together([side[0] for side in sides]),
        after=_together([side[1] for side in sides]),
        gradual=change.gradual,
        peers=Peers(len(members) - 1, len(others)),
    )


def marks(state: State, row: int) -> tuple[Mark, ...]:
    """Return what changed of a stream: what its pages showed, then what somebody told."""
    identity = state.identities[row]
    return (*identity.marks, *told.marks(state.told, identity.key))


def _slid(kind: str, detector: str) -> bool:
    return kind == "decay" or detector == "trend"


def _peers(state: State, row: int, change: ChangePoint) -> Peers:
    """Return how the other streams of the model fared over the change."""
    move = _move(*_sides(state, row, change))
    if not math.isfinite(move):
        return Peers()
    others = [other for other in _of_group(state, int(state.groups.group_of_row[row])) if other != row]
    moves = [_move(*_sides(state, other, change)) for other in others[:MOST_PEERS]]
    known = [each for each in moves if math.isfinite(each)]
    moved = sum(each * move > ALIKE_SHARE * move * move for each in known)
    return Peers(moved, len(known) - moved)


def _sides(state: State, row: int, change: ChangePoint) -> tuple[Sums, Sums]:
    """Return a stream's sums before and after a change, up to when it is looked at."""
    return windows.around(state.sums[row : row + 1], change.at, state.window_seconds, change.until)


def _of_group(state: State, group: int) -> list[int]:
    return np.flatnonzero(state.groups.group_of_row == group).tolist()


def _move(before: Sums, after: Sums) -> float:
    """Return the logarithm of how accepted tokens per draft moved, NaN where a side has too few drafts."""
    drafts = [float(sums.vectors[0, windows.COUNTERS][Counter.DRAFTS]) for sums in (before, after)]
    accepted = [float(sums.vectors[0, windows.COUNTERS][Counter.ACCEPTED_TOKENS]) for sums in (before, after)]
    if min(drafts) < LEAST_DRAFTS:
        return math.nan
    return math.log((accepted[1] + 1.0) / drafts[1]) - math.log((accepted[0] + 1.0) / drafts[0])


def _together(sums: Sequence[Sums]) -> Sums:
    """Return the sums of several streams as one; a counter is known where all of them have it."""
    return replace(
        sums[0],
        vectors=np.sum([each.vectors for each in sums], axis=0),
        known=np.all([each.known for each in sums], axis=0),
        positions=np.min([each.positions for each in sums], axis=0),
    )
