"""`floor`: the draft is dead or silent in absolute terms, whatever its baseline."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from monitor.detectors import base
    from monitor.detectors.base import Bools, Floats, State

NAME = "floor"

DISPERSION = 3.0
LIMIT_NATS = 7.0
MEMORY_DRAFTS = 4000.0
ZERO_DRAFTS = 40.0
CLEARLY_ABOVE = 2.0
STRIKES = 2.0

DTYPE = np.dtype(
    [
        ("drafts", "f8"),
        ("accepted", "f8"),
        ("since", "f8"),
        ("ever_accepted", "f8"),
        ("strikes", "f8"),
        ("above_drafts", "f8"),
        ("above_accepted", "f8"),
        ("silent_since", "f8"),
        ("drafted_before", "f8"),
    ],
)


def allocate(state: State) -> None:
    """Set fresh rows to never silent."""
    state["silent_since"] = np.nan


def step(
    plan: base.Plan, state: State, drafts: Floats, accepted: Floats, began_at: Floats, healthy: Bools
) -> tuple[Floats, Floats]:
    """Return two scores [B] in units of the limit: the draft is dead, the draft is clearly alive.

    Both are likelihood ratios of the accepted tokens a draft against the floor (Poisson, the variance
    `DISPERSION` times larger), over the last `MEMORY_DRAFTS`; or, before a first token was ever accepted,
    nothing accepted of 40 drafts. Where the baseline is `healthy`, two intervals must say so.
    """
    allowed = plan.floor_mal - 1.0
    fade = np.exp(-drafts / MEMORY_DRAFTS)
    state["since"] = np.where(state["drafts"] > 0.0, state["since"], began_at)
    total = state["drafts"] * fade + drafts
    kept = state["accepted"] * fade + accepted
    state["drafts"], state["accepted"] = total, kept
    state["ever_accepted"] += accepted
    expected = allowed * total
    nats = _poisson_nats(kept, expected)
    below = kept < expected
    never = (state["ever_accepted"] <= 0.0) & (total >= ZERO_DRAFTS)
    low = (drafts > 0.0) & (accepted < allowed * drafts)
    strikes = np.where(drafts > 0.0, (state["strikes"] + 1.0) * low, state["strikes"])
    state["strikes"] = strikes
    dead = np.maximum(np.where(below, nats / (DISPERSION * LIMIT_NATS), 0.0), never)
    # one torn page must not call a draft dead that was alive a minute ago
    dead = np.where(healthy & (strikes < STRIKES), np.minimum(dead, 0.5 * strikes), dead)
    state["since"] = np.where(below, state["since"], began_at)
    # shorter memory for being alive again: it must not wait for the dead hours to fade
    fade = np.where(accepted > CLEARLY_ABOVE * allowed * drafts, 1.0, np.exp(-drafts / 64.0))
    above, more = state["above_drafts"] * fade + drafts, state["above_accepted"] * fade + accepted
    state["above_drafts"], state["above_accepted"] = above, more
    expected = CLEARLY_ABOVE * allowed * above
    alive = np.where(more > expected, _poisson_nats(more, expected) / (DISPERSION * LIMIT_NATS), 0.0)
    return dead, alive


def _poisson_nats(seen: Floats, expected: Floats) -> Floats:
    ratio = np.maximum(seen, 1e-9) / np.maximum(expected, 1e-9)
    result: Floats = seen * np.log(ratio) - seen + expected
    return result


def restart(state: State) -> None:
    """Forget the drafts seen so far."""
    for name in ("drafts", "accepted", "above_drafts", "above_accepted", "strikes"):
        state[name] = 0.0


def silence(plan: base.Plan, state: State, drafts: Floats, tokens: Floats, began_at: Floats, at: Floats) -> Floats:
    """Return the score [B] that speculation went silent: tokens flow, nothing is drafted any more."""
    state["drafted_before"] += drafts
    still = (drafts <= 0.0) & (tokens > 0.0) & (state["drafted_before"] > 0.0)
    since = np.where(np.isnan(state["silent_since"]), began_at, state["silent_since"])
    quiet = (drafts <= 0.0) & ~(tokens > 0.0)
    state["silent_since"] = np.where(still, since, np.where(quiet, state["silent_since"], np.nan))
    score: Floats = np.where(still, (at - since) / plan.silent_seconds, 0.0)
    return score
