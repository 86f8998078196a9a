"""Falls that pass by themselves again and again: a second level of the stream, and no news any more.

A server of few sessions at a time falls with every one that its draft does not suit, and comes back with
the next. From the third such collapse within hours on (`ENOUGH`, each forgotten within `MEMORY_SECONDS` or
so; a drop, or a collapse that a restart began or ended, is none) the second level is known: its mean shift
in logits m, how far the falls were apart (sd), the lowest, how long the longest was. It is told once. A
trouble that opens then and goes half of the way at least is muted: it freezes the baseline and is followed
like any other, and nobody is told of it, unless

- it lasts for `LONGER` times the longest so far, in time with traffic, and `LEAST_SECONDS` at least;
- it is at a third level: m - max(`APART`, `SPREADS` · sd), and `BELOW` under the lowest. The log likelihood
  ratio of that against m, summed over buckets, reaches `NATS`, or it was that far down when it opened;
- the draft is dead in absolute terms.

What was told once is known until no fall came for `KEPT_SECONDS`; another regime forgets it.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from monitor.core.detectors import base

if TYPE_CHECKING:
    from monitor.core.detectors.base import Bools, Bucket, Floats, State

NAME = "swings"

TOLD, ENOUGH = 3, 2.5
"""Falls that make a second level, and their number with older ones worth less: three within a shift."""

MEMORY_SECONDS = 12 * 3600.0
"""Seconds (e-folding) over which falls are counted: half a day, so that three of one night count."""

KEPT_SECONDS = 72 * 3600.0
"""Seconds without any fall after which a second level is news again: a weekend."""

LONGER, LEAST_SECONDS = 3.0, 900.0
"""Times the longest fall so far that one must last to be told, and the seconds at least: of sessions with
exponential lengths one in twenty outlasts three times the longest of three, one in 286 of ten."""

APART, SPREADS, LEAST_SPREAD, BELOW = 1.2, 2.5, 0.1, 0.6
"""How far a third level is below the second: logits, and standard deviations of the falls (logits at least);
logits below the lowest fall. A MAL of 1.6 against 1.25."""

HALF = 0.5
"""Share of the way to the second level that a fall goes at least to be one to it."""

NATS, MOST_NATS = 7.5, 4.0
"""Log likelihood ratio that proves a third level, as a recovery's, and what one bucket may give of it."""

CORRELATED = 3.0
"""Times a bucket's variance that neighbours count for, as in `troubles`."""

DTYPE = np.dtype(
    [
        ("falls", "f4"),  # that passed by themselves, faded
        ("shift", "f4"),  # their mean size, logits
        ("square", "f4"),  # their mean square, logits²
        ("lowest", "f4"),  # the deepest, logits
        ("longest", "f4"),  # the longest, seconds
        ("last_at", "f8"),  # end of the last, unix seconds
        ("known", "f4"),  # 1 once the second level is known
        ("lower", "f4"),  # evidence of a third level, nats
        ("lower_since", "f8"),  # when that left 0, unix seconds
    ],
)


def forget(state: State) -> None:
    """Forget the falls: they were those of another regime."""
    for name in ("falls", "lowest", "longest", "known", "lower"):
        state[name] = 0.0


def passed(state: State, row: int, now: float, shift: float, lasted: float) -> bool:
    """Take in a fall of `shift` logits that is over by itself and return whether the second level is news."""
    one = state[row]
    falls = float(one["falls"]) * math.exp(-max(now - float(one["last_at"]), 0.0) / MEMORY_SECONDS)
    kept = falls / (falls + 1.0)
    one["shift"] = kept * float(one["shift"]) + (1.0 - kept) * shift
    one["square"] = kept * float(one["square"]) + (1.0 - kept) * shift * shift
    one["longest"] = max(float(one["longest"]) if falls > 0.0 else 0.0, lasted)
    one["lowest"] = min(float(one["lowest"]) if falls > 0.0 else 0.0, shift)
    one["falls"], one["last_at"], one["lower"] = falls + 1.0, now, 0.0
    was = known(state, row, now)
    one["known"] = was or falls + 1.0 >= ENOUGH
    return bool(one["known"]) and not was


def known(state: State, row: int, now: float) -> bool:
    """Return whether one row's falls to its second level are no news at a time."""
    return bool(state["known"][row] > 0.0 and now - float(state["last_at"][row]) <= KEPT_SECONDS)


def as_ever(state: State, row: int, shift: float) -> bool:
    """Return whether a fall of `shift` logits is about to the second level of one row, and not further.

    Less than half of the way is another fall: a drop that is news.
    """
    return float(_third(state[row : row + 1])[0]) < shift <= HALF * float(state["shift"][row])


def _third(state: State) -> Floats:
    """Return how many logits [B] down a third level would be."""
    mean = state["shift"].astype(np.float64)
    spread = np.sqrt(np.maximum(state["square"] - mean * mean, LEAST_SPREAD**2))
    apart: Floats = mean - np.maximum(APART, SPREADS * spread)
    result: Floats = np.minimum(apart, state["lowest"] - BELOW)
    return result


def follow(state: State, trouble: State, bucket: Bucket) -> None:
    """Sum up over full buckets what speaks for it that muted troubles are at a third level."""
    muted = trouble["muted"] > 0.0
    if not muted.any():
        return
    second, third = state["shift"].astype(np.float64), _third(state)
    moved = bucket.score[:, 0] - trouble["origin"][:, 0]
    variance = CORRELATED * np.maximum(bucket.variance[:, 0], trouble["scatter"][:, 0])
    nats = (second - third) * (0.5 * (second + third) - moved) / variance
    before = state["lower"]
    lower = np.maximum(before + base.clip(nats, -MOST_NATS, MOST_NATS), 0.0) * muted
    begins = (before <= 0.0) & (lower > 0.0)
    state["lower_since"] = np.where(begins, bucket.began_at, state["lower_since"])
    state["lower"] = lower


def lower(state: State) -> Bools:
    """Return the rows [B] whose muted trouble is proven to be at a third level."""
    result: Bools = state["lower"] >= NATS
    return result


def loud(state: State, trouble: State) -> Bools:
    """Return the rows [B] whose muted trouble is to be told of after all."""
    result: Bools = (trouble["muted"] > 0.0) & (lower(state) | stays(state, trouble))
    return result


def stays(state: State, trouble: State) -> Bools:
    """Return the rows [B] whose muted trouble lasts longer than any that passed by itself."""
    longest = np.maximum(LONGER * state["longest"], LEAST_SECONDS)
    result: Bools = (trouble["muted"] > 0.0) & (trouble["lasted"] > longest)
    return result


def patience(longest: float) -> float:
    """Return how many seconds a fall to the second level may last, the longest so far given."""
    return max(LONGER * longest, LEAST_SECONDS)
