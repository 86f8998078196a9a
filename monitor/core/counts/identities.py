"""Identities that hold between an engine's own counters, checked on every interval.

A page is rendered while the engine works, so its families may stand one step apart; the tolerance allows
for that. A violation beyond it says that a number on the page does not mean what it should: the interval is
not judged (`streams.quality`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from monitor.core.pages.engines.base import Counter

if TYPE_CHECKING:
    import numpy.typing as npt

    from monitor.core.counts.deltas import Counts

    Floats = npt.NDArray[np.float64]

DRAFTS, DRAFT_TOKENS, ACCEPTED_TOKENS = Counter.DRAFTS, Counter.DRAFT_TOKENS, Counter.ACCEPTED_TOKENS
IDENTITIES = ("positions_sum", "positions_order", "accepted_tokens", "acceptance_length")
TOLERATED_TOKENS = 16.0
TOLERATED_SHARE = 0.05
ROUNDED_TOTALS, ROUNDED_POSITIONS = 20.0, 4.0  # steps of few digits that a difference may be off by


def excesses(counts: Counts, resolution: Floats | None = None) -> Floats:
    """Return by how many tokens each row breaks each of `IDENTITIES` beyond its share, [B, 4]; below 0 none.

    positions_sum: the positions' accepted tokens add up to all accepted. positions_order: no position
    accepts more than the one before it. accepted_tokens: not more accepted than drafted. acceptance_length:
    not more than k accepted per draft. `resolution` [B] is the smallest step in which drafts can move.
    """
    drafts = counts.values[:, Counter.DRAFTS]
    accepted = counts.values[:, Counter.ACCEPTED_TOKENS]
    steps = np.zeros(len(drafts)) if resolution is None else resolution
    slack = TOLERATED_SHARE * accepted + ROUNDED_TOTALS * steps
    reported = counts.positions > 0
    earlier = np.concatenate((drafts[:, None], counts.accepted[:, :-1]), axis=1)
    there = np.arange(counts.accepted.shape[1]) < counts.positions[:, None]
    beyond = np.where(there, counts.accepted - earlier * (1.0 + TOLERATED_SHARE), -np.inf).max(1)
    ceiling = np.where(counts.num_speculative_tokens > 0, counts.num_speculative_tokens * drafts, np.nan)
    surplus = counts.accepted.sum(1) - accepted
    # Positions that there is no room for, or that nothing reached, may hold what is missing.
    apart = np.where(counts.num_speculative_tokens > counts.positions, surplus, np.abs(surplus))
    found = np.empty((len(drafts), len(IDENTITIES)))
    found[:, 0] = np.where(reported, apart - slack, np.nan)
    found[:, 1] = np.where(reported, beyond - ROUNDED_POSITIONS * steps, np.nan)
    found[:, 2] = accepted - counts.values[:, Counter.DRAFT_TOKENS] - slack
    found[:, 3] = accepted - ceiling - slack
    return np.where(np.isnan(found), 0.0, found)


def violations(counts: Counts, resolution: Floats | None = None) -> npt.NDArray[np.bool_]:
    """Return which of `IDENTITIES` each row violates by itself, [B, 4]."""
    violated: npt.NDArray[np.bool_] = excesses(counts, resolution) > TOLERATED_TOKENS
    return violated


def said(counts: Counts, index: int, name: str) -> str:
    """Return one clause on the identity `name` that row `index` violates: what was read and expected."""
    drafts, proposed, accepted = counts.values[index, [DRAFTS, DRAFT_TOKENS, ACCEPTED_TOKENS]].tolist()
    positions = counts.accepted[index, : int(counts.positions[index])]
    if name == "positions_sum":
        return (
            f"the positions' accepted tokens add up to {positions.sum():.0f}, expected the {accepted:.0f} "
            "that were accepted in all"
        )
    if name == "positions_order":
        earlier = np.concatenate(([drafts], positions[:-1]))
        worst = int(np.argmax(positions - earlier * (1.0 + TOLERATED_SHARE)))
        before = (
            f"the {drafts:.0f} drafts" if worst == 0 else f"the {earlier[worst]:.0f} of position {worst - 1}"
        )
        return f"position {worst} accepted {positions[worst]:.0f} tokens, expected at most {before}"
    if name == "accepted_tokens":
        return f"{accepted:.0f} tokens were accepted, expected at most the {proposed:.0f} drafted"
    tokens = int(counts.num_speculative_tokens[index])
    return (
        f"{accepted / max(drafts, 1.0):.2f} tokens were accepted a draft, expected at most "
        f"num_speculative_tokens {tokens}"
    )
