"""`floor`: the draft is dead or silent in absolute terms, whatever its baseline.

Dead, with D drafts, A accepted tokens and the floor f = `floor_mal` - 1 tokens a draft:

    (A ln(A / fD) - A + fD) / `DISPERSION`  ≥  `LIMIT_NATS`,  A < fD        (Poisson likelihood ratio)

over the last `MEMORY_DRAFTS` drafts; or nothing at all accepted of the first `ZERO_DRAFTS` (40) drafts of a
stream, which a healthy draft (position 0 at 0.3 and more) does once in a million times, or one token of the
first `ONE_DRAFTS` (160), though all were of one request. Silent: tokens
flow and nothing is drafted for `silent_seconds`, after drafts were seen.

Assumes that accepted tokens come in runs and by requests, so that their variance is `DISPERSION` (3) times
that of a Poisson count. LIMIT_NATS 7 is a chance of one in a thousand per independent stretch of traffic
at the floor itself; streams well above it never come near. Cannot see a draft that is poor but above the
floor, nor tell a dead draft from traffic that no draft could follow.

Measured: MAL 1.03 of 913 drafts, none of 279 and none of 40 alarm in their first window, none of 23 and 12
of 200 do not (tests/detectors/test_absolute.py). No false alarm in 6,000 simulated hours.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from monitor.core.detectors import base
    from monitor.core.detectors.base import Bools, Floats, State
    from monitor.core.detectors.measures.evidence import Trials

NAME = "floor"

DISPERSION = 3.0
"""Variance of accepted tokens over that of a Poisson count: they come in runs and by requests. Runs on real
engines have 2 to 4."""

LIMIT_NATS = 7.0
"""Nats at which a draft is dead: one chance in a thousand per independent stretch at the floor itself."""

MEMORY_DRAFTS = 4000.0
"""Drafts (e-folding) that are looked at: enough for any floor, few enough to forget a healthy day within
minutes."""

ALIVE_MEMORY_DRAFTS = 64.0
"""Drafts (e-folding) after which low ones make a dead draft begin anew to prove that it is alive."""

ZERO_DRAFTS = 40.0
"""First drafts of which none accepted is dead: a draft accepted at 0.3 does it once in a million times."""

ONE_DRAFTS = 160.0
"""The same of which one was accepted, all of one request or not: once in 500,000 times at a rate of 0.1."""

CLEARLY_ABOVE = 2.0
"""Times the floor's tokens a draft that a draft must have to be alive: between the two it stays what it
was."""

STRIKES = 2.0
"""Intervals below the floor in a row where the baseline is healthy: one torn page is none."""

_EPS = 1e-9
"""Keeps logarithms from zero; decides nothing."""

DTYPE = np.dtype(
    [
        ("drafts", "f8"),  # faded by `MEMORY_DRAFTS`
        ("accepted", "f8"),  # accepted tokens of these
        ("since", "f8"),  # of acceptance below the floor, unix seconds
        ("ever_accepted", "f8"),  # accepted tokens of the regime
        ("strikes", "f4"),  # intervals below the floor in a row
        ("above_drafts", "f8"),  # faded by `ALIVE_MEMORY_DRAFTS`
        ("above_accepted", "f8"),  # accepted tokens of these
        ("silent_since", "f8"),  # of tokens without drafts, unix seconds, NaN: none
        ("drafted_before", "f4"),  # 1 once there were drafts
    ],
)


def allocate(state: State) -> None:
    """Set fresh rows to never silent."""
    state["silent_since"] = np.nan


def restart(state: State) -> None:
    """Forget the drafts seen so far."""
    for name in ("drafts", "accepted", "above_drafts", "above_accepted", "strikes"):
        state[name] = 0.0


def step(plan: base.DetectionPlan, state: State, trials: Trials, healthy: Bools) -> Floats:
    """Return the score [B] that the draft is dead, in units of the limit.

    It is the likelihood ratio of the accepted tokens a draft against the floor (Poisson, the variance
    `DISPERSION` times larger) over the last `MEMORY_DRAFTS`; or, at a stream's begin, nothing accepted of 40
    drafts, or one of 160. Where the baseline is `healthy`, two intervals must say so.
    """
    allowed, drafts = plan.floor_mal - 1.0, trials.drafts
    fade = np.exp(-drafts / MEMORY_DRAFTS)
    total = state["drafts"] * fade + drafts
    kept = state["accepted"] * fade + trials.accepted
    state["drafts"], state["accepted"] = total, kept
    state["ever_accepted"] += trials.accepted
    below = kept < allowed * total
    low = trials.accepted < allowed * drafts
    state["since"] = np.where(below & (state["strikes"] > 0.0), state["since"], trials.began_at)
    state["strikes"] = np.where(drafts > 0.0, (state["strikes"] + 1.0) * low, state["strikes"])
    if not below.any():
        return np.zeros(len(drafts))
    nats = _poisson_nats(kept, allowed * total)
    ever, first = state["ever_accepted"], np.fmax(total, trials.proposed)
    never = ((ever <= 0.0) & (first >= ZERO_DRAFTS)) | ((ever <= 1.0) & (first >= ONE_DRAFTS))
    dead = np.maximum(nats * below / (DISPERSION * LIMIT_NATS), never)
    # one torn page must not call a draft dead that was alive a minute ago
    strikes = state["strikes"]
    result: Floats = np.where(healthy & (strikes < STRIKES), np.minimum(dead, strikes / STRIKES * 0.99), dead)
    return result


def alive(plan: base.DetectionPlan, state: State, trials: Trials) -> Floats:
    """Return the score [B] that the draft is clearly alive: its tokens a draft are twice the floor and more.

    The memory is short: being alive again must not wait for the dead hours to fade.
    """
    enough = CLEARLY_ABOVE * (plan.floor_mal - 1.0)
    fade = np.where(
        trials.accepted > enough * trials.drafts, 1.0, np.exp(-trials.drafts / ALIVE_MEMORY_DRAFTS)
    )
    drafts = state["above_drafts"] * fade + trials.drafts
    kept = state["above_accepted"] * fade + trials.accepted
    state["above_drafts"], state["above_accepted"] = drafts, kept
    expected = enough * drafts
    result: Floats = (kept > expected) * _poisson_nats(kept, expected) / (DISPERSION * LIMIT_NATS)
    return result


def _poisson_nats(counted: Floats, expected: Floats) -> Floats:
    ratio = np.maximum(counted, _EPS) / np.maximum(expected, _EPS)
    result: Floats = counted * np.log(ratio) - counted + expected
    return result


def silence(plan: base.DetectionPlan, state: State, trials: Trials, tokens: Floats) -> Floats:
    """Return the score [B] that speculation went silent: tokens flow, nothing is drafted any more."""
    state["drafted_before"] += trials.drafts
    flowing = tokens > 0.0
    none = trials.proposed <= 0.0
    still = flowing & none & (state["drafted_before"] > 0.0)
    if not still.any() and np.isnan(state["silent_since"]).all():
        return np.zeros(len(tokens))
    since = np.where(np.isnan(state["silent_since"]), trials.began_at, state["silent_since"])
    # drafts that are unknown say neither that there were some nor that there were none
    quiet = (none & ~flowing) | np.isnan(trials.proposed)
    state["silent_since"] = np.where(still, since, np.where(quiet, state["silent_since"], np.nan))
    result: Floats = still * (trials.at - since) / plan.silent_seconds
    return result
