"""Identities that hold between an engine's own counters, checked on every interval.

A page is rendered while the engine works, so its families may stand one step apart; the tolerance allows
for that. A violation beyond it says that a number on the page does not mean what it should.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from monitor.core.pages.engines.base import Counter

if TYPE_CHECKING:
    import numpy.typing as npt

    from monitor.core.counts.deltas import Counts

IDENTITIES = ("positions_sum", "positions_order", "accepted_tokens", "acceptance_length")
TOLERATED_TOKENS = 16.0
TOLERATED_SHARE = 0.05


def violations(counts: Counts) -> npt.NDArray[np.bool_]:
    """Return which of `IDENTITIES` each row violates, [B, 4].

    positions_sum: the positions' accepted tokens add up to all accepted. positions_order: no position
    accepts more than the one before it. accepted_tokens: not more accepted than drafted. acceptance_length:
    not more than k accepted per draft.
    """
    drafts = counts.values[:, Counter.DRAFTS]
    accepted = counts.values[:, Counter.ACCEPTED_TOKENS]
    slack = _allowed(accepted)
    reported = counts.positions > 0
    earlier = np.concatenate((drafts[:, None], counts.accepted[:, :-1]), axis=1)
    ceiling = np.where(counts.num_speculative_tokens > 0, counts.num_speculative_tokens * drafts, np.inf)
    violated = np.empty((len(drafts), len(IDENTITIES)), bool)
    violated[:, 0] = reported & (np.abs(counts.accepted.sum(1) - accepted) > slack)
    violated[:, 1] = reported & (counts.accepted > earlier + _allowed(earlier)).any(1)
    violated[:, 2] = accepted > counts.values[:, Counter.DRAFT_TOKENS] + slack
    violated[:, 3] = accepted > ceiling + slack
    return violated


def _allowed(tokens: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    return TOLERATED_TOKENS + TOLERATED_SHARE * tokens
