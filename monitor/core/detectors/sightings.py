"""What the detectors saw in one batch, before anybody makes an alarm of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from monitor.core.detectors import base, shape

if TYPE_CHECKING:
    from monitor.core.detectors.base import Bools, Floats, Indices, Verdict


@dataclass(frozen=True, slots=True)
class Sightings:
    """Scores in units of their limits, B rows; what is seen in full buckets is 0 in rows that have none.

    Of the interval: plunge, dead, alive, silent [B]. Of full buckets: level and trend [B, 4] (fall, rise,
    and when each began), shape [B, 14] (fall and rise of each contrast), score [B, 8] (level and contrasts,
    logits), trend_shift and trend_origin [B] (how far from where the level moved), over [B] (the open
    trouble is proven over), full [B] (there was a full bucket).
    """

    plunge: Floats
    dead: Floats
    alive: Floats
    silent: Floats
    full: Bools
    level: Floats
    trend: Floats
    shape: Floats
    score: Floats
    trend_shift: Floats
    trend_origin: Floats
    over: Bools

    def falls(self) -> Floats:
        """Return the highest score [B] of any fall."""
        most = np.maximum(np.maximum(self.plunge, self.dead), np.maximum(self.level[:, 0], self.trend[:, 0]))
        result: Floats = np.maximum(most, self.shape.max(1))
        return result

    def rises(self) -> Floats:
        """Return the highest score [B] of any rise."""
        result: Floats = np.maximum(self.level[:, 1], self.trend[:, 1])
        return result


def of_intervals(plunge: Floats, dead: Floats, alive: Floats, silent: Floats, full: Bools) -> Sightings:
    """Return what single intervals showed, with room for what full buckets will show."""
    size = len(full)
    return Sightings(
        plunge=plunge,
        dead=dead,
        alive=alive,
        silent=silent,
        full=full,
        level=np.zeros((size, 4)),
        trend=np.zeros((size, 4)),
        shape=np.zeros((size, 2 * shape.CONTRASTS)),
        score=np.zeros((size, base.POSITIONS)),
        trend_shift=np.zeros(size),
        trend_origin=np.zeros(size),
        over=np.zeros(size, bool),
    )


def note(columns: Floats, rows: Indices, verdict: Verdict) -> None:
    """Write a verdict on `rows` into their `columns` [B, 4]."""
    columns[rows, 0], columns[rows, 1] = verdict.down, verdict.up
    columns[rows, 2], columns[rows, 3] = verdict.down_since, verdict.up_since
