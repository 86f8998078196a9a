"""Where an engine's life or a regime begins: what stays comparable, and what to say of it.

A restart goes on with the baseline. A new regime with the same k does too, for its conditional
acceptances are what it is compared by; once enough was seen of it, a note says what it brought. Another k
keeps the positions that both have, and is noted at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from monitor.core.detectors import base, lengths, level, shape, trend
from monitor.core.detectors.measures import reference
from monitor.core.detectors.troubles import diagnosis, swings

if TYPE_CHECKING:
    from monitor.core.counts.deltas import Counts
    from monitor.core.detectors.base import Alarm, Floats, State

VERDICT_BUCKETS = 20.0
"""Buckets of a new regime before it is compared with the last: five minutes at 15 s, some lives of
requests."""

DTYPE = np.dtype(
    [
        ("num_speculative_tokens", "f8"),  # k that the stream has, 0: unknown
        ("pending", "f8"),  # 1 while the new regime waits for its comparison
        ("began_at", "f8"),  # of the new regime, unix seconds
        ("buckets", "f8"),  # full buckets of it
        ("before", "f8", 4),  # of the last regime: MAL, low, high, drafts
    ],
)


def begin(state: State, counts: Counts) -> list[Alarm]:
    """Let new lives and regimes begin and return the notes of those that have another k."""
    reported = np.where(counts.num_speculative_tokens > 0, counts.num_speculative_tokens, counts.positions)
    old = state["regime"]["num_speculative_tokens"].copy()
    new = np.where(reported > 0, reported, old)
    state["regime"]["num_speculative_tokens"] = new
    anew = counts.restarted | counts.new_regime
    if not anew.any():
        return []
    lives = np.flatnonzero(anew)
    part = state[lives]
    reference.restart(part["baseline"], counts.at[lives])
    state[lives] = part
    _announce(state, np.flatnonzero(counts.new_regime), counts.at)
    rows = np.flatnonzero(counts.new_regime & (old > 0.0) & (old != new))
    part = state[rows]
    part["regime"]["pending"] = 0.0
    part["bucket"]["sums"] = 0.0
    kept = np.minimum(old, new)[rows]
    reference.forget(part["baseline"], kept)
    trend.forget(part["trend"], kept)
    lengths.restart(part["lengths"])
    level.restart(part["level"])
    shape.restart(part["shape"])
    notes = [_note(state, row, float(counts.at[row]), base.UNKNOWN_LEVEL) for row in rows.tolist()]
    state[rows] = part
    return notes


def _announce(state: State, rows: base.Indices, times: Floats) -> None:
    """Remember how the last regime stood, to be compared once enough was seen of the new one."""
    regime = state["regime"]
    for row in rows.tolist():
        before = diagnosis.measured(state, state["baseline"]["local"][row], row)
        regime["before"][row] = before.mal, before.mal_low, before.mal_high, before.drafts
        regime["pending"][row] = before.drafts > 0.0
        regime["began_at"][row] = times[row]
        regime["buckets"][row] = 0.0
        state["trouble"]["recent"][row] = 0.0
        swings.forget(state["swings"][row : row + 1])


def compare(state: State, times: Floats) -> list[Alarm]:
    """Count full buckets of new regimes and return the notes of those of which enough was seen.

    Rows are those of full buckets; the alarms' indices count them.
    """
    regime = state["regime"]
    if not regime["pending"].any():
        return []
    regime["buckets"] += regime["pending"]
    due = np.flatnonzero((regime["pending"] > 0.0) & (regime["buckets"] >= VERDICT_BUCKETS))
    notes = []
    for row in due.tolist():
        mal, low, high, drafts = regime["before"][row].tolist()
        after = diagnosis.measured(state, state["trouble"]["recent"][row], row)
        notes.append(_note(state, row, float(times[row]), after, base.Level(mal, low, high, (), drafts)))
        regime["pending"][row] = 0.0
    return notes


def _note(state: State, row: int, now: float, after: base.Level, before: base.Level | None = None) -> Alarm:
    began = float(state["regime"]["began_at"][row])
    levels = before or diagnosis.measured(state, state["baseline"]["local"][row], row), after
    return base.regime_note(row, began, now, levels, "regime")
