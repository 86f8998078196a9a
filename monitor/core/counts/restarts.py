"""Tells a process that started again from a page that is only behind.

A restart is believed when a start time or a creation time moves on; where the page has neither, when the
counters fall by half, or stay down and move. A page that is behind is a torn one, an old one from a cache, or
one of a process that is on its way out while a newer one answers at the same address.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from monitor.core.pages.engines import base

if TYPE_CHECKING:
    import numpy.typing as npt

    from monitor.core.counts.readings import Readings

    Floats = npt.NDArray[np.float64]
    Booleans = npt.NDArray[np.bool_]

SAME_START_SECONDS = 1.0
RESTART_SHARE = 0.5
PATIENT_PAGES = 20  # pages behind in a row, against their start time's word, until they are believed


def seen(state: npt.NDArray[np.void], now: Readings) -> tuple[Booleans, Booleans]:
    """Return which streams began anew and which readings must be held back."""
    last = state["growing"]
    moved_on = now.begun - state["begun"]
    newer = (moved_on > SAME_START_SECONDS).any(1)
    older = (moved_on < -SAME_START_SECONDS).any(1)
    fell = ((now.growing < last) & now.reported).any(1)
    behind = (fell | older) & ~newer
    if not behind.any():
        return newer, behind
    far = (now.growing < RESTART_SHARE * last)[:, : base.Counter.FIRST_TOKENS].any(1)
    # A page that stands still may be a cached one; a process that works moves.
    moved = total(now) != state["held_total"]
    denied = older | (np.abs(moved_on) <= SAME_START_SECONDS).any(1)
    stays = moved & (state["held"] >= np.where(denied, PATIENT_PAGES, 1))
    believed = behind & ((far & ~denied) | stays)
    return newer | believed, behind & ~believed


def total(now: Readings) -> Floats:
    """Return the sum of a reading's counters [B]: a fingerprint of how far its process has come."""
    result: Floats = np.nansum(now.counters, axis=1)
    return result
