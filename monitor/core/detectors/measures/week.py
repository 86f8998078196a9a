"""What each part of the week adds to the level: a table of slots of 6 h (UTC), between which is interpolated.

A slot is learnt when it and the next are over and no trouble came, so that a slide cannot explain itself;
the more weeks were seen, the less a single one counts. Saturdays, Sundays and the hours beside them
(`WEEKEND`, so those of Asia and America, too) may differ by `WEEKEND_SD` logits before one was seen. Other
slots are not taken for uncertain, or a first week would be blind to slow decay; so a first week whose
working days differ from each other is seen as it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from monitor.core.detectors.base import Bools, Floats, Ints, State

DAY = 86400.0
"""Seconds of a day."""

SLOTS = 28
"""Parts of the week: four a day; finer ones would see too little each."""

SLOT_SECONDS = 7 * DAY / SLOTS
"""Seconds of a slot: six hours."""

WEEKEND = slice(7, 17)  # unix time began on a Thursday: from Friday 18:00 to Monday 06:00
WEEKEND_SD, WEEKDAY_SD, WEEKLY_SD = 0.1, 0.04, 0.03
"""Logits (standard deviations) that a slot may differ by: of the weekend, of working days, and from week to
week."""

WANDER_SHARE = 0.5
"""Share of the wander's variance that is left in the mean of a slot: six hours are three of its memories."""

LEAST_BLOCKS = 24.0
"""Blocks of five minutes that a slot needs to teach anything: two of its six hours."""

_BOTH = np.array([0, 1])
"""The slot that a time is in the second half of, and the next."""

_PRIOR = np.full(SLOTS, WEEKDAY_SD**2)
"""Variances of the slots before anything was learnt."""

_PRIOR[WEEKEND] = WEEKEND_SD**2
_UNCERTAIN = np.zeros(SLOTS)
_UNCERTAIN[WEEKEND] = 1.0

DTYPE = np.dtype(
    [
        ("adds", "f2", SLOTS),  # logits that a slot of the week adds
        ("variance", "f2", SLOTS),  # of that, logits²
        ("slot", "f4"),  # under way, counted from Thursday 0:00 UTC
        ("passing", "f4", (2, 2)),  # surprises, blocks: of the slot before, of this one
    ]
)


def allocate(state: State) -> None:
    """Set fresh rows to what is assumed before anything was learnt."""
    state["variance"] = _PRIOR


def adds(state: State, times: Floats) -> Floats:
    """Return what the part of the week adds to the level [B] (logits) at a time."""
    row, slot, share = _around(times)
    result: Floats = (state["adds"][row, slot] * share).sum(1)
    return result


def unknown(state: State, times: Floats) -> Floats:
    """Return the variance [B] of what the part of the week adds."""
    row, slot, share = _around(times)
    result: Floats = (state["variance"][row, slot] * _UNCERTAIN[slot] * share).sum(1)
    return result


def learn(state: State, times: Floats, surprise: Floats, error: Floats, use: Bools) -> None:
    """Gather the surprise [B] of blocks, and learn the last slot but one when another begins.

    error [B]: variance of a slot's mean surprise. A row that is not of use forgets what it gathered.
    """
    now = (times // SLOT_SECONDS).astype(np.int64) % SLOTS
    before = state["slot"].astype(np.int64)
    ends = before != now
    if ends.any():
        _finish(state, (before - 1) % SLOTS, error, ends)
        follows = ((before + 1) % SLOTS == now)[:, None]
        passing = state["passing"]
        passing[:, 0] = np.where(ends[:, None], passing[:, 1] * follows, passing[:, 0])
        passing[:, 1] *= ~ends[:, None]
        state["slot"] = now
    state["passing"][:, 1] += np.stack([surprise, np.ones(len(use))], 1)
    state["passing"] *= use[:, None, None]


def _finish(state: State, slot: Ints, error: Floats, ends: Bools) -> None:
    row = np.arange(len(slot))
    total, blocks = state["passing"][:, 0, 0], state["passing"][:, 0, 1]
    use = ends & (blocks >= LEAST_BLOCKS)
    variance = np.minimum(state["variance"][row, slot] + use * WEEKLY_SD**2, _PRIOR[slot])
    gain = use * variance / (variance + error)
    state["adds"][row, slot] += gain * total / np.maximum(blocks, 1.0)
    state["variance"][row, slot] = (1.0 - gain) * variance


def _around(times: Floats) -> tuple[Ints, Ints, Floats]:
    """Return rows [B, 1], the two slots [B, 2] between whose middles a time is, and the share of each."""
    position = times / SLOT_SECONDS - 0.5
    before = np.floor(position)
    after = position - before
    slot = (before.astype(np.int64)[:, None] + _BOTH) % SLOTS
    return np.arange(len(times))[:, None], slot, np.stack([1.0 - after, after], 1)
