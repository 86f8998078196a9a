"""The baseline: conditional acceptance per position over the last day of this regime's undisturbed traffic.

What a bucket saw joins the baseline only after a quarantine, and never while a trouble is open or a
detector is near its limit: the baseline does not follow a fall. Time without traffic does not age it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from monitor.core.detectors import base
from monitor.core.detectors.measures import scores

if TYPE_CHECKING:
    from monitor.core.detectors.base import Bools, Floats, State
    from monitor.core.detectors.measures.evidence import Trials

MEMORY_SECONDS = 30 * 3600.0
"""Seconds with traffic (e-folding) that the baseline is a mean of: a day and a quarter, so that each hour
of the day has its say."""

LOCAL_SECONDS = 3600.0
"""Seconds (e-folding) of where the level stood lately, which events are compared with."""

QUARANTINE_SECONDS = 600.0
"""Seconds that counts wait before they join the baseline: longer than any far fall stays unseen."""

LEAST_QUARANTINE_SECONDS = 20.0
"""The same of a stream of a few minutes, which has no other baseline."""

QUARANTINE_SHARE = 0.3
"""Share of a stream's age that counts wait, between the two."""

LONGEST_QUARANTINE_SECONDS = 4500.0
"""Seconds after which counts join though the stream is never calm: an hour and a quarter is no moment."""

START_DRAFTS = 500.0
"""Drafts that join at once, for a stream that knows nothing: a few requests."""

KNOWN_TRIALS = 300.0
"""Trials of a position before it is judged: its rate is then known to 0.03."""

GROWN_SECONDS = 3600.0
"""Seconds after which the positions that a larger k brought are judged: a few minutes are a few requests."""

SAME_LENGTH = 0.7  # of the positions that were ever drafted, where drafts only end early now and then
LOWEST, HIGHEST = 0.004, 0.996
"""Rates that a baseline may have: at 0 and 1 odds have no logarithm. LOWEST and HIGHEST are 5.5 logits from
even."""

DTYPE = np.dtype(
    [
        ("sums", "f8", base.NUM_SUMS),
        ("fresh", "f8", base.NUM_SUMS),
        ("aged", "f8", base.NUM_SUMS),
        ("local", "f8", base.NUM_SUMS),
        ("fresh_since", "f8"),
        ("began_at", "f8"),
        ("life_began_at", "f8"),
        ("relocate", "f8"),
        ("buckets", "f8"),
        ("drafted", "f8"),
        ("single", "f8"),
        ("trusted", "f8"),
        # of the sums above, kept because they change rarely and are asked for at every step
        ("rate", "f8", base.POSITIONS),
        ("information", "f8", base.POSITIONS),
        ("mal", "f8"),
    ],
)
_INDEX = np.arange(base.POSITIONS)


def allocate(state: State) -> None:
    """Set fresh rows to a baseline that knows nothing."""
    state["rate"] = 0.5
    state["mal"] = np.nan
    state["trusted"] = base.POSITIONS


def known(state: State) -> Bools:
    """Return the positions [B, 8] that have a baseline.

    Those that a larger k brought are known after an hour: a few minutes are a few requests.
    """
    result: Bools = (state["sums"][:, base.TRIALS] >= KNOWN_TRIALS) & (state["trusted"][:, None] > _INDEX)
    return result


def expected_accepted(rate: Floats, drafted: Floats, single: Bools) -> Floats:
    """Return the accepted tokens a draft [B] that conditional acceptances promise for `drafted` positions.

    The eighth rate stands for all positions from the eighth on.
    """
    reach = np.cumprod(rate, axis=1)
    inside = np.minimum(drafted, base.POSITIONS)[:, None] > _INDEX
    last = rate[:, -1]
    more = np.maximum(drafted - base.POSITIONS, 0.0)
    tail = reach[:, -1] * last * (1.0 - last**more) / (1.0 - last)
    result: Floats = np.where(single, rate[:, 0] / (1.0 - rate[:, 0]), (reach * inside).sum(1) + tail)
    return result


def derive(state: State) -> None:
    """Bring what is kept of the sums up to date."""
    sums = state["sums"]
    trials = sums[:, base.TRIALS]
    rate = base.clip((sums[:, base.SUCCESSES] + 0.5) / (trials + 1.0), LOWEST, HIGHEST)
    found = scores.against(sums, rate, known(state))
    state["rate"] = rate
    state["information"] = found.information
    drafts = sums[:, base.DRAFTS]
    promised = expected_accepted(rate, state["drafted"], state["single"] > 0.0)
    measured = sums[:, base.ACCEPTED] / np.maximum(drafts, 1.0)
    # drafts of mixed lengths are as they were; an engine that adapts k now drafts fewer positions than before
    same = state["drafted"] >= SAME_LENGTH * (trials > 0.0).sum(1)
    state["mal"] = np.where(drafts > 0.0, 1.0 + np.where(same, measured, promised), np.nan)


def add(state: State, bucket: State, trials: Trials, rows: base.Indices, weight: Floats, calm: Bools) -> None:
    """Take full buckets into quarantine, and let the baseline have what was long enough in it.

    The quarantine has two rooms: when the fresh one is as old as the quarantine is long, what is in the
    aged one joins the baseline and the fresh one becomes the aged one. A young stream has a shorter
    quarantine, its first drafts none. A stream that is never calm waits an hour and joins all the same.
    """
    at, began = trials.at[rows], bucket["began_at"]
    starting = state["sums"][:, base.DRAFTS] < START_DRAFTS
    first = state["buckets"] == 0.0
    state["began_at"] = np.where(first, began, state["began_at"])
    life = np.where(first, began, state["life_began_at"])
    state["life_began_at"] = life
    state["buckets"] += 1.0
    fresh = state["fresh"]
    since = np.where(fresh[:, base.DRAFTS] > 0.0, state["fresh_since"], began)
    state["fresh_since"] = since
    fresh += bucket["sums"] * np.where(starting, 1.0, weight)[:, None]
    age = at - since
    least = base.clip(QUARANTINE_SHARE * (at - life), LEAST_QUARANTINE_SECONDS, QUARANTINE_SECONDS)
    join = (calm & (age >= least)) | (age > LONGEST_QUARANTINE_SECONDS) | starting
    drafted = trials.drafted[rows]
    grown = (state["trusted"] < base.POSITIONS) & (at - life >= GROWN_SECONDS)
    state["trusted"] = np.where(grown, base.POSITIONS, state["trusted"])
    changed = np.flatnonzero(join | grown | (drafted != state["drafted"]))
    state["drafted"], state["single"] = drafted, trials.single[rows]
    if len(changed):
        part = state[changed]
        _join(part, join[changed], starting[changed], np.minimum(age[changed], LONGEST_QUARANTINE_SECONDS))
        derive(part)
        state[changed] = part


def _join(state: State, join: Bools, starting: Bools, step: Floats) -> None:
    """Move the aged room into the baseline where `join`, and the fresh room into the aged one."""
    one, now = join[:, None], starting[:, None]
    fresh, aged, local = state["fresh"], state["aged"], state["local"]
    joining = aged + fresh * now
    came = joining[:, base.DRAFTS] > 0.0
    faded = np.exp(-step / LOCAL_SECONDS) * ~((state["relocate"] > 0.0) & came)
    state["sums"] = np.where(
        one, state["sums"] * np.exp(-step / MEMORY_SECONDS)[:, None] + joining, state["sums"]
    )
    state["local"] = np.where(one, local * faded[:, None] + joining, local)
    state["relocate"] = np.where(join & came, 0.0, state["relocate"])
    state["aged"] = np.where(one, fresh * ~now, aged)
    state["fresh"] = np.where(one, 0.0, fresh)


def restart(state: State, at: Floats) -> None:
    """Begin another life of the engine: the baseline goes on, the level of the last hour is learnt anew."""
    state["life_began_at"] = at
    state["relocate"] = 1.0


def adopt(state: State, sums: Floats) -> None:
    """Make `sums` [B, 18], all that was seen since the level rose for good, the baseline."""
    state["sums"] = state["local"] = sums
    state["fresh"] = state["aged"] = 0.0
    state["relocate"] = 0.0
    derive(state)


def forget(state: State, positions_kept: Floats) -> None:
    """Drop the baseline of the positions from `positions_kept` [B] on: another k made them incomparable."""
    keep = np.concatenate([positions_kept[:, None] > _INDEX] * 2 + [np.ones((len(state), 2), bool)], 1)
    for name in ("sums", "fresh", "aged", "local"):
        forgotten = (state[name][:, base.SUCCESSES] * ~keep[:, base.SUCCESSES]).sum(1)
        state[name] *= keep
        state[name][:, base.ACCEPTED] -= forgotten
    state["trusted"] = np.where(state["buckets"] > 0.0, positions_kept, base.POSITIONS)
    derive(state)
