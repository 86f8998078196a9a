"""Impossible data: counters that contradict each other are not judged, and that is said while it lasts.

An interval that breaks an identity beyond its tolerance gives no evidence at all: it is in no window, no
baseline and no detector. Three in a row open an event; three sane ones with drafts close it. What is too
much is added up, so that a page which is always wrong by little is found where requests are few, and a torn
one, which the next page puts right, is not.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from monitor.core import events, streams
from monitor.core.counts import identities
from monitor.core.events import attribution
from monitor.core.pages.engines.base import Counter, Evidence

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy.typing as npt

    from monitor.core.counts.deltas import Counts
    from monitor.core.events import Event
    from monitor.core.streams import State

    Booleans = npt.NDArray[np.bool_]

OPENING, CLOSING = 3, 3
MOST_KEPT = 2.0 * identities.TOLERATED_TOKENS
NOT_JUDGED = "acceptance is not judged while this lasts"
SEVERAL = (
    "the counters go back and return, or pages of an older process come in between: several processes answer "
    "in turn at this address, as workers behind one port or replicas behind one name do; scrape each by an "
    f"address of its own: {NOT_JUDGED}"
)
SANE_AGAIN = "the counters agree with each other again: acceptance is judged"


def sift(state: State, counts: Counts, resolution: npt.NDArray[np.float64]) -> list[Event]:
    """Take impossible intervals out of `counts` in place and return the events that they open or close.

    `resolution` [B] is the smallest step in which the counters can move.
    """
    broken = violated(state, counts, resolution)
    state.status["violations"][counts.rows] += broken
    several = state.ledger["alternates"][counts.rows]
    impossible = broken.any(1) | several
    facts = {
        index: SEVERAL if several[index] else _said(counts, broken[index], index)
        for index in np.flatnonzero(impossible).tolist()
    }
    found = attend(state, counts, impossible, facts)
    withheld(counts, impossible)
    return found


def violated(state: State, counts: Counts, resolution: npt.NDArray[np.float64]) -> Booleans:
    """Return which identities each row violates [B, I], by itself or with what came before it."""
    excess = identities.excesses(counts, resolution)
    before = state.status["excess"][counts.rows]
    if not (excess > 0).any() and not before.any():
        return np.zeros(excess.shape, bool)
    added = np.minimum(np.maximum(before + excess, 0.0), MOST_KEPT)
    state.status["excess"][counts.rows] = added
    found: Booleans = (excess > identities.TOLERATED_TOKENS) | (
        (added > identities.TOLERATED_TOKENS) & (excess > 0)
    )
    return found


def attend(state: State, counts: Counts, impossible: Booleans, facts: Mapping[int, str]) -> list[Event]:
    """Return the events that impossible intervals open or close; `facts` says of each of them why."""
    if not impossible.any() and not state.status["impossible"][counts.rows].any():
        return []
    status = state.status[counts.rows]
    sane = ~impossible & (counts.values[:, Counter.DRAFTS] > 0)
    began = impossible & (status["impossible"] == 0)
    status["impossible_since"] = np.where(began, counts.at - counts.seconds, status["impossible_since"])
    status["impossible"] += impossible
    status["sane"] = np.where(impossible, 0, status["sane"] + sane)
    opening = impossible & ~status["doubted"] & (status["impossible"] >= OPENING)
    closing = status["doubted"] & (status["sane"] >= CLOSING)
    status["doubted"] = (status["doubted"] | opening) & ~closing
    # Before an event is open one sane interval is enough; a torn page comes alone.
    over = closing | (sane & ~status["doubted"])
    status["impossible"] = np.where(over, 0, status["impossible"])
    state.status[counts.rows] = status
    for index, fact in facts.items():
        state.identities[counts.rows[index]].contradiction = fact
    found = [_opened(state, counts, index) for index in np.flatnonzero(opening).tolist()]
    found += [
        event
        for index in np.flatnonzero(closing).tolist()
        if (event := _closed(state, int(counts.rows[index]), float(counts.at[index]))) is not None
    ]
    return found


def withheld(counts: Counts, impossible: Booleans) -> None:
    """Take all evidence out of impossible rows in place; restarts and regimes stay told."""
    if impossible.any():
        counts.values[impossible] = np.nan
        counts.accepted[impossible] = 0.0
        counts.positions[impossible] = 0
        counts.evidence[impossible] = Evidence.NONE


def _said(counts: Counts, broken: Booleans, index: int) -> str:
    """Return what the interval `index` contradicts, the first two identities of `broken` [I]."""
    names = [name for name, bad in zip(identities.IDENTITIES, broken.tolist(), strict=True) if bad]
    return f"{'; '.join(identities.said(counts, index, name) for name in names[:2])}: {NOT_JUDGED}"


def _opened(state: State, counts: Counts, index: int) -> Event:
    row = int(counts.rows[index])
    identity = state.identities[row]
    fact = identity.contradiction
    since = float(state.status["impossible_since"][row])
    why = attribution.Attribution((fact,), (attribution.Cause("data_quality", 1.0, fact),))
    span = (since, since, min(since + float(counts.seconds[index]), float(counts.at[index])))
    event = events.doubted(identity.id, identity.key, span, float(counts.at[index]), why)
    identity.doubt = event
    streams.count_change(state, row, event)
    return event


def _closed(state: State, row: int, now: float) -> Event | None:
    identity = state.identities[row]
    event, identity.doubt = identity.doubt, None
    state.status["impossible_since"][row] = math.nan
    return None if event is None else events.closed(event, now, SANE_AGAIN)
