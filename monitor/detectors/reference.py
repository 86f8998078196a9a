"""The baseline: conditional acceptance per position over the last day of this regime's undisturbed traffic.

What a bucket saw joins the baseline only after a quarantine, and never while a trouble is open or a
detector is near its limit: the baseline does not follow a fall. Time without traffic does not age it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from monitor.detectors import base

if TYPE_CHECKING:
    from monitor.detectors.base import Bools, Floats, Ints, State

MEMORY_SECONDS = 30 * 3600.0
LOCAL_SECONDS = 3600.0
QUARANTINE_SECONDS = 600.0
LEAST_QUARANTINE_SECONDS = 20.0
QUARANTINE_SHARE = 0.3
LONGEST_QUARANTINE_SECONDS = 4500.0
START_DRAFTS = 500.0
KNOWN_TRIALS = 300.0
LONGEST_STEP_SECONDS = 4500.0
LOWEST, HIGHEST = 0.004, 0.996

_SUMS = [
    ("trials", "f8", base.POSITIONS),
    ("successes", "f8", base.POSITIONS),
    ("drafts", "f8"),
    ("accepted", "f8"),
]
DTYPE = np.dtype(
    [
        *_SUMS,
        ("fresh", np.dtype(_SUMS)),
        ("fresh_since", "f8"),
        ("aged", np.dtype(_SUMS)),
        ("local", np.dtype(_SUMS)),
        ("began_at", "f8"),
        ("buckets", "f8"),
        ("drafted", "f8"),
        ("single", "f8"),
    ],
)
_SUM_NAMES = ("trials", "successes", "drafts", "accepted")
_INDEX = np.arange(base.POSITIONS)


def rates(state: State) -> Floats:
    """Return the baseline's conditional acceptance [B, 8]; one half where a position was never tried."""
    trials = state["trials"]
    result: Floats = np.clip((state["successes"] + 0.5) / (trials + 1.0), LOWEST, HIGHEST)
    return result


def expected_accepted(rate: Floats, drafted: Floats, longest: Floats, single: Bools) -> Floats:
    """Return the accepted tokens a draft [B] that the conditional acceptances promise for `drafted` positions.

    The eighth rate stands for all positions from the eighth on, up to `longest`.
    """
    reach = np.cumprod(rate, axis=1)
    inside = _INDEX < np.minimum(drafted, base.POSITIONS)[:, None]
    total = np.where(inside, reach, 0.0).sum(1)
    more = np.maximum(longest - base.POSITIONS, 0.0)
    last = rate[:, -1]
    tail = reach[:, -1] * last * (1.0 - last**more) / (1.0 - last)
    total = total + np.where(drafted >= base.POSITIONS, tail, 0.0)
    result: Floats = np.where(single, rate[:, 0] / (1.0 - rate[:, 0]), total)
    return result


def mean_length(state: State, rate: Floats) -> Floats:
    """Return the mean acceptance length [B] of the baseline, NaN before there is one."""
    drafted = state["drafted"]
    mal = 1.0 + expected_accepted(rate, drafted, drafted, state["single"] > 0.0)
    result: Floats = np.where(state["drafts"] > 0.0, mal, np.nan)
    return result


def add(state: State, bucket: State, at: Floats, weight: Floats, calm: Bools, frozen: Bools) -> None:
    """Take full buckets into quarantine, and let the baseline have what was long enough in it.

    The quarantine has two rooms: when the fresh one is as old as the quarantine is long, what is in the
    aged one joins the baseline and the fresh one becomes the aged one. A stream's first hour has a shorter
    quarantine, its first drafts none. A stream that is never calm waits an hour and joins all the same.
    """
    starting = state["drafts"] < START_DRAFTS
    state["began_at"] = np.where(state["buckets"] > 0.0, state["began_at"], bucket["began_at"])
    state["buckets"] += ~frozen
    fresh, aged, local = state["fresh"], state["aged"], state["local"]
    since = np.where(fresh["drafts"] > 0.0, state["fresh_since"], bucket["began_at"])
    state["fresh_since"] = since
    weight = np.where(frozen, 0.0, np.where(starting, 1.0, weight))
    age = at - since
    least = np.clip(QUARANTINE_SHARE * (at - state["began_at"]), LEAST_QUARANTINE_SECONDS, QUARANTINE_SECONDS)
    ripe = ((age >= least) & calm) | (age > LONGEST_QUARANTINE_SECONDS) | starting
    join = ripe & ~frozen
    step = np.where(join, np.clip(age, 0.0, LONGEST_STEP_SECONDS), 0.0)
    fade, fade_local = np.exp(-step / MEMORY_SECONDS), np.exp(-step / LOCAL_SECONDS)
    for name in _SUM_NAMES:
        wide = (slice(None), None) if name in ("trials", "successes") else slice(None)
        taken = fresh[name] + bucket[name] * weight[wide]
        joining = np.where(join[wide], aged[name] + taken * starting[wide], 0.0)
        state[name] = state[name] * fade[wide] + joining
        local[name] = local[name] * fade_local[wide] + joining
        aged[name] = np.where(join[wide], taken * ~starting[wide], aged[name])
        fresh[name] = np.where(join[wide], 0.0, taken)


def forget(state: State, positions_kept: Ints) -> None:
    """Drop the baseline of the positions from `positions_kept` [B] on: another k made them incomparable."""
    drop = positions_kept[:, None] <= _INDEX
    for part in (state, state["fresh"], state["aged"], state["local"]):
        part["trials"] = np.where(drop, 0.0, part["trials"])
        part["successes"] = np.where(drop, 0.0, part["successes"])
