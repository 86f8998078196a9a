"""Two readings of a stream -> what happened between them.

Counters only grow, except when their process starts again (`restarts`). A page that is behind is held back,
and the next good page spans it. Nothing here is ever negative.

The counters of speculation are one group: where one of them is unreadable on a page, the next page counts
all of them, or drafts and accepted tokens of different intervals would be divided by each other.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum
from typing import TYPE_CHECKING

import numpy as np

from monitor.core.counts import alternation, implied, lateness, restarts
from monitor.core.pages.engines import base

if TYPE_CHECKING:
    import numpy.typing as npt

    from monitor.core.counts.readings import Readings

    Floats = npt.NDArray[np.float64]
    Integers = npt.NDArray[np.int64]
    Booleans = npt.NDArray[np.bool_]

GAP_INTERVALS = 2.5
INTERVAL_MEMORY = 0.1

_SPECULATION = slice(base.Counter.DRAFTS, base.Counter.ACCEPTED_TOKENS + 1)


class Outcome(IntEnum):
    """What became of a reading."""

    COUNTED = 0  # its difference to the last one is in the counts
    BASE = 1  # the first of its stream, or since the clock was set back: later ones are measured from it
    DUPLICATE = 2  # as old as the last one
    LATE = 3  # older than the last one
    HELD = 4  # a counter went back without a restart: kept out until the next page tells which
    WAITING = 5  # a counter with few digits has not moved far enough to be read: the next page spans it


@dataclass(frozen=True, slots=True)
class Counts:
    """What happened in one interval of each stream: B rows, only streams with news.

    rows [B]: the stream's row in the state. at, seconds [B]: end and length of the interval (unix seconds,
    seconds). values [B, C]: differences of the canonical counters, NaN where unknown. accepted [B, P]:
    accepted tokens per position, 0 past `positions`, which is 0 where the page has none. evidence [B]:
    `engines.base.Evidence`. restarted: the counters began anew. gap: the interval is longer than usual.
    new_regime: model, draft, method, k or engine version changed; the pipeline knows, here it is False.
    """

    rows: npt.NDArray[np.intp]
    at: Floats
    seconds: Floats
    values: Floats
    accepted: Floats
    positions: Integers
    num_speculative_tokens: Integers
    evidence: Integers
    restarted: Booleans
    gap: Booleans
    new_regime: Booleans


def dtype(num_positions: int) -> np.dtype[np.void]:
    """Return the fields of one stream's row: its last reading and how often it is read."""
    return np.dtype(
        [
            ("at", "f8"),  # last page, unix seconds
            ("growing", "f8", base.NUM_COUNTERS + num_positions),  # its counters, then accepted by position
            ("begun", "f8", 2),  # start of process and of counters, unix seconds
            ("interval", "f8"),  # usual seconds between pages
            ("positions", "i8"),  # positions on the page
            ("held", "i8"),  # pages in a row whose counters are behind
            ("held_total", "f8"),  # their total, by which one that repeats is told
            ("restarts", "i8"),  # seen
            ("late", "i8"),  # late pages in a row
            ("set_back", "f8"),  # seconds that the clock was set back at this page
            *implied.FIELDS,
            *alternation.FIELDS,
        ],
    )


def allocate(num_rows: int, num_positions: int) -> npt.NDArray[np.void]:
    """Return rows of streams that were never read."""
    state = np.zeros(num_rows, dtype(num_positions))
    for field in ("at", "begun", "interval", "held_total"):
        state[field] = np.nan
    state["growing"][:, : base.NUM_COUNTERS] = np.nan
    implied.clear(state)
    alternation.clear(state)
    return state


def between(
    state: npt.NDArray[np.void], rows: npt.NDArray[np.intp], now: Readings
) -> tuple[Counts, Integers]:
    """Return the counts since the last reading and the `Outcome` of each; `state` is changed in place.

    `state` holds the streams' rows in the order of `rows`; the counts hold those of them that were counted.
    """
    before, outcome = _in_order(state, now)
    _compare(state, now, outcome)
    restarted, behind = restarts.seen(state, now)
    now = _whole(state, now, restarted)
    looked = outcome == Outcome.COUNTED
    counted = looked & ~behind
    restarted &= counted
    alternation.note(state, now, restarted, looked, counted)
    _hold(state, now, outcome, behind & looked)
    state["restarts"] += restarted

    seconds = _seconds(now, before, restarted)
    growth = _growth(state["growing"], now, restarted, counted)
    counts = Counts(
        rows=rows,
        at=now.at,
        seconds=seconds,
        values=growth[:, : base.NUM_COUNTERS],
        accepted=growth[:, base.NUM_COUNTERS :],
        positions=now.positions,
        num_speculative_tokens=now.num_speculative_tokens,
        evidence=now.evidence,
        restarted=restarted,
        gap=counted & (seconds > GAP_INTERVALS * state["interval"]),
        new_regime=np.zeros(len(rows), bool),
    )
    _add_up_positions(counts)
    implied.complete(counts.values, state, now, restarted)
    kept = counted | (outcome == Outcome.BASE)
    implied.remember(state, now, counts.values[:, base.Counter.GENERATION_TOKENS], kept)
    _remember(state, now, kept, restarted)
    _learn_interval(state, counted & ~restarted, seconds)
    return (counts if counted.all() else select(counts, counted)), outcome


def _in_order(state: npt.NDArray[np.void], now: Readings) -> tuple[Floats, Integers]:
    """Return when each stream was read before, and what becomes of the readings as far as time tells."""
    before = state["at"].copy()
    outcome = np.full(len(before), int(Outcome.COUNTED))
    if (now.at > before).all():
        if state["late"].any():
            state["late"] = 0
        return before, outcome
    first = np.isnan(before)
    late, set_back = lateness.judged(state, now)
    outcome[now.at == before] = Outcome.DUPLICATE
    outcome[late] = Outcome.LATE
    outcome[set_back] = Outcome.BASE
    outcome[first & np.isnan(now.since)] = Outcome.BASE
    return np.where(first, now.since, before), outcome


def _compare(state: npt.NDArray[np.void], now: Readings, outcome: Integers) -> None:
    """Take out of `outcome`, in place, readings that count other things than the last or moved too little."""
    counted = outcome == Outcome.COUNTED
    switched = implied.switched(state, now)
    if switched is not None:
        _forget(state, switched)
        outcome[switched & counted] = Outcome.BASE
    if now.resolution.any():
        outcome[counted & implied.unresolved(state, now)] = Outcome.WAITING


def _seconds(now: Readings, before: Floats, restarted: Booleans) -> Floats:
    """Return how long the counters have grown: since the last page, or since a start after it."""
    if not restarted.any():
        return now.at - before
    started_at = now.begun[:, 0]
    within = restarted & (started_at > before) & (started_at < now.at)
    return now.at - np.where(within, started_at, before)


def _add_up_positions(counts: Counts) -> None:
    """Take the positions' sum for the accepted tokens where the engine does not count them."""
    total = counts.values[:, base.Counter.ACCEPTED_TOKENS]
    unknown = np.isnan(total) & (counts.positions > 0)
    if unknown.any():
        np.copyto(total, counts.accepted.sum(1), where=unknown)


def select(counts: Counts, chosen: Booleans) -> Counts:
    """Return the chosen rows of `counts`."""
    return Counts(*(getattr(counts, field)[chosen] for field in Counts.__slots__))


def _forget(state: npt.NDArray[np.void], chosen: Booleans) -> None:
    """Take the last counters out of rows whose engine now counts other things: there is no difference."""
    state["growing"][chosen, : base.NUM_COUNTERS] = np.nan
    state["growing"][chosen, base.NUM_COUNTERS :] = 0.0
    state["positions"] = np.where(chosen, 0, state["positions"])


def _whole(state: npt.NDArray[np.void], now: Readings, restarted: Booleans) -> Readings:
    """Return `now` with all of speculation's counters unknown in rows where a known one is missing.

    After a restart nothing is missing: a series may come with its first event.
    """
    unknown = now.unknown[:, _SPECULATION]
    bare = now.positions == 0
    if not (unknown.any() or bare.any()):
        return now
    lost = (unknown & ~np.isnan(state["growing"][:, _SPECULATION])).any(1)
    lost |= bare & (state["positions"] > 0)
    lost &= ~restarted
    if not lost.any():
        return now
    growing, reported = now.growing.copy(), now.reported.copy()
    growing[lost, _SPECULATION] = np.nan
    growing[lost, base.NUM_COUNTERS :] = 0.0
    reported[lost, base.NUM_COUNTERS :] = False
    return replace(
        now,
        growing=growing,
        reported=reported,
        unknown=np.isnan(growing),
        positions=np.where(lost, 0, now.positions),
    )


def _hold(state: npt.NDArray[np.void], now: Readings, outcome: Integers, held: Booleans) -> None:
    """Keep readings that are behind out of the counts, and count how many follow each other."""
    if held.any():
        outcome[held] = Outcome.HELD
        np.copyto(state["held_total"], restarts.total(now), where=held)
    elif not state["held"].any():
        return
    state["held"] = np.where(held, state["held"] + 1, np.where(outcome == Outcome.COUNTED, 0, state["held"]))


def _growth(last: Floats, now: Readings, restarted: Booleans, counted: Booleans) -> Floats:
    """Return how much each counter grew [B, C + P]; one that appears, or begins anew, counts from zero."""
    from_zero = (np.isnan(last) & counted[:, None]) | restarted[:, None] | ~now.reported
    return now.growing - np.where(from_zero, 0.0, last)


def _remember(state: npt.NDArray[np.void], now: Readings, kept: Booleans, restarted: Booleans) -> None:
    keep = kept[:, None]
    known = now.reported & ~now.unknown
    np.copyto(state["at"], now.at, where=kept)
    np.copyto(state["growing"], now.growing, where=keep & (known | restarted[:, None]))
    np.copyto(state["positions"], now.positions, where=kept & (restarted | (now.positions > 0)))
    np.copyto(state["begun"], now.begun, where=keep & ~np.isnan(now.begun))


def _learn_interval(state: npt.NDArray[np.void], usable: Booleans, seconds: Floats) -> None:
    """Follow the usual interval; a gap counts as a little longer than usual, so a new rhythm is learnt."""
    usual = state["interval"]
    bounded = np.minimum(seconds, GAP_INTERVALS * usual)
    update = np.where(np.isnan(usual), seconds, usual + INTERVAL_MEMORY * (bounded - usual))
    state["interval"] = np.where(usable, update, usual)
