"""`lengths`: drafts became longer or shorter, told once as what it is.

Engines adapt the length of drafts by load, confidence or match (adaptive depth, p-min, suffix drafting). The
mean length of the last ten buckets or so is held against the usual one; a change of `LEAST` tokens and a
seventh (`SHARE`) that stays for `STAY_SECONDS` is noted, once: lengths between the extremes that a stream is
known to draft are no news, and extremes are forgotten within a week or so (`MEMORY_SECONDS`). What acceptance
does at a length is not judged here; positions are compared by their conditional acceptance (`evidence`).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from monitor.core.detectors import base
from monitor.core.detectors.measures import reference
from monitor.core.detectors.troubles import diagnosis

if TYPE_CHECKING:
    from monitor.core.detectors.base import Alarm, Floats, State

NAME = "lengths"

LEAST, SHARE = 0.5, 1.0 / 7.0
"""Draft tokens, and the share of the usual length, that another length differs by to be told: a MAL that
moves by a tenth or more."""

STAY_SECONDS = 600.0
"""Seconds that another length must stay: engines that adapt by load go to and fro within minutes."""

KNOWN = 0.25
"""Draft tokens outside of the known extremes that are no news yet: half of `LEAST`."""

MEMORY_SECONDS = 7 * 86400.0
"""Seconds (e-folding) in which extremes of length are forgotten: a week, so that a weekly job is known."""

DTYPE = np.dtype(
    [
        ("usual", "f4"),  # mean length it is told against, tokens; 0: unknown
        ("low", "f4"),  # shortest known, tokens
        ("high", "f4"),  # longest known, tokens
        ("since", "f8"),  # of another length, unix seconds; 0: none
        ("last_at", "f8"),  # last bucket, unix seconds
    ]
)


def restart(state: State) -> None:
    """Forget the lengths: those of another k are others."""
    state["usual"] = state["since"] = 0.0


def step(state: State, times: Floats) -> list[Alarm]:
    """Return notes of the rows [B] (of full buckets) whose drafts have had another length for a while.

    state: all columns, changed in place. The alarms' indices count the rows.
    """
    own = state["lengths"]
    now = np.fmax(reference.depth(state["trouble"]["recent"]), 0.0)
    usual = own["usual"].astype(np.float64)
    kept = np.exp(-(times - own["last_at"]) / MEMORY_SECONDS)
    own["last_at"] = times
    for name in ("low", "high"):
        own[name] = usual + (own[name] - usual) * kept
    other = (now > 0.0) & (np.abs(now - usual) >= np.maximum(LEAST, SHARE * usual))
    if not (other.any() or own["since"].any()):
        return []
    since = np.where(other, np.where(own["since"] > 0.0, own["since"], times), 0.0)
    own["since"] = since
    stays = np.flatnonzero(other & (times - since >= STAY_SECONDS))
    notes = [_note(state, row, float(times[row])) for row in stays.tolist() if _is_news(own, row, now[row])]
    own["since"][stays] = 0.0
    own["usual"][stays] = now[stays]
    return notes


def _is_news(own: State, row: int, now: float) -> bool:
    """Return whether a length is outside of what one row is known to draft, which it then is no more."""
    first = own["usual"][row] == 0.0
    low, high = (now, now) if first else (float(own["low"][row]), float(own["high"][row]))
    own["low"][row], own["high"][row] = min(low, now), max(high, now)
    return not first and not low - KNOWN <= now <= high + KNOWN


def _note(state: State, row: int, raised_at: float) -> Alarm:
    began, recent = float(state["lengths"]["since"][row]), state["trouble"]["recent"][row]
    baseline, now = state["baseline"][row : row + 1], reference.depth(recent[None])
    promised = 1.0 + float(reference.at_depth(baseline, now)[0])
    whole = abs(float(now[0]) - round(float(now[0]))) <= reference.FIXED
    after = diagnosis.measured(state, recent, row)
    # acceptance is compared at the present length, where the baseline knows what that promises
    before = base.Level(promised, math.nan, math.nan, (), 0.0) if whole else base.UNKNOWN_LEVEL
    fact = (
        f"drafts went from {float(state['lengths']['usual'][row]):.3g} to {float(now[0]):.3g} tokens on the "
        "mean; positions are compared by their conditional acceptance, as far as they are known to be drafted"
    )
    return base.regime_note(row, began, raised_at, (before, after), NAME, fact)
