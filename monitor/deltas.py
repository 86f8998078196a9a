"""Two readings of a stream -> what happened between them.

Counters only grow, except when their process starts again. A restart is believed when a start time or a
creation time says so; where the page has neither, when the counters fall by half or stay down for two
pages. A single page that is a little behind (a torn or late one) is held back, and the next good page
spans it. Nothing here is ever negative.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

import numpy as np

from monitor.engines import base

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    Floats = npt.NDArray[np.float64]
    Integers = npt.NDArray[np.int64]
    Booleans = npt.NDArray[np.bool_]

SAME_START_SECONDS = 1.0
RESTART_SHARE = 0.5
GAP_INTERVALS = 2.5
INTERVAL_MEMORY = 0.1


class Outcome(IntEnum):
    """What became of a reading."""

    COUNTED = 0  # its difference to the last one is in the counts
    BASE = 1  # the first of its stream: later ones are measured from it
    DUPLICATE = 2  # as old as the last one
    LATE = 3  # older than the last one
    HELD = 4  # a counter went back without a restart: kept out until the next page tells which


@dataclass(frozen=True, slots=True)
class Readings:
    """Readings as arrays, B rows: `counters` [B, C], `accepted` [B, P] (0 past `positions`), the rest [B].

    `since` is when the target's page was read without this stream, NaN where there was no such page.
    """

    at: Floats
    counters: Floats
    accepted: Floats
    positions: Integers
    num_speculative_tokens: Integers
    evidence: Integers
    started_at: Floats
    created_at: Floats
    since: Floats
    new_regime: Booleans


@dataclass(frozen=True, slots=True)
class Counts:
    """What happened in one interval of each stream: B rows, only streams with news.

    rows [B]: the stream's row in the state. at, seconds [B]: end and length of the interval (unix seconds,
    seconds). values [B, C]: differences of the canonical counters, NaN where unknown. accepted [B, P]:
    accepted tokens per position, 0 past `positions`, which is 0 where the page has none. evidence [B]:
    `engines.base.Evidence`. restarted: the counters began anew. gap: the interval is longer than usual.
    new_regime: model, draft, method, k or engine version changed.
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
            ("at", "f8"),
            ("counters", "f8", base.NUM_COUNTERS),
            ("accepted", "f8", num_positions),
            ("started_at", "f8"),
            ("created_at", "f8"),
            ("interval", "f8"),
            ("held", "i8"),
            ("restarts", "i8"),
        ],
    )


def allocate(num_rows: int, num_positions: int) -> npt.NDArray[np.void]:
    """Return rows of streams that were never read."""
    state = np.zeros(num_rows, dtype(num_positions))
    for field in ("at", "counters", "started_at", "created_at", "interval"):
        state[field] = np.nan
    return state


def stack(readings: Sequence[base.Reading], at: Floats, since: Floats, new_regime: Booleans, num_positions: int) -> Readings:
    """Return `readings` as arrays with room for `num_positions` positions."""
    count = len(readings)
    accepted = np.zeros((count, num_positions))
    positions = np.zeros(count, np.int64)
    for row, reading in enumerate(readings):
        if reading.accepted:
            positions[row] = len(reading.accepted)
            accepted[row, : len(reading.accepted)] = reading.accepted
    facts = np.array(
        [(reading.num_speculative_tokens, reading.evidence, reading.started_at, reading.created_at) for reading in readings],
    ).reshape(count, 4)
    return Readings(
        at=at,
        counters=np.array([reading.counters for reading in readings]).reshape(count, base.NUM_COUNTERS),
        accepted=accepted,
        positions=positions,
        num_speculative_tokens=facts[:, 0].astype(np.int64),
        evidence=facts[:, 1].astype(np.int64),
        started_at=facts[:, 2],
        created_at=facts[:, 3],
        since=since,
        new_regime=new_regime,
    )


def between(state: npt.NDArray[np.void], rows: npt.NDArray[np.intp], now: Readings) -> tuple[Counts, Integers]:
    """Return the counts since the last reading and the `Outcome` of each reading; `state` is changed in place.

    `state` holds the streams' rows in the order of `rows`; the counts hold those of them that were counted.
    """
    before = state["at"].copy()
    first = np.isnan(before)
    from_zero = first & ~np.isnan(now.since)
    before[from_zero] = now.since[from_zero]
    outcome = np.full(len(rows), Outcome.COUNTED, np.int64)
    outcome[first & ~from_zero] = Outcome.BASE
    outcome[~first & (now.at == before)] = Outcome.DUPLICATE
    outcome[~first & (now.at < before)] = Outcome.LATE

    reported = np.arange(now.accepted.shape[1]) < now.positions[:, None]
    restarted, held = _restarts(state, now, reported)
    held &= outcome == Outcome.COUNTED
    outcome[held] = Outcome.HELD
    state["held"] = np.where(held, state["held"] + 1, np.where(outcome == Outcome.COUNTED, 0, state["held"]))
    counted = outcome == Outcome.COUNTED
    restarted &= counted
    state["restarts"] += restarted

    seconds = now.at - np.where(restarted & (now.started_at > before), now.started_at, before)
    gap = counted & (seconds > GAP_INTERVALS * state["interval"])
    counts = Counts(
        rows=rows,
        at=now.at,
        seconds=seconds,
        values=_difference(state["counters"], now.counters, restarted, new=from_zero | counted),
        accepted=now.accepted - np.where(restarted[:, None] | ~reported, 0.0, state["accepted"]),
        positions=now.positions,
        num_speculative_tokens=now.num_speculative_tokens,
        evidence=now.evidence,
        restarted=restarted,
        gap=gap,
        new_regime=now.new_regime & counted,
    )
    total = counts.values[:, base.Counter.ACCEPTED_TOKENS]
    np.copyto(total, counts.accepted.sum(1), where=np.isnan(total) & (now.positions > 0))
    _remember(state, now, counted | (outcome == Outcome.BASE), reported | restarted[:, None])
    _learn_interval(state, counted & ~restarted & ~gap, seconds)
    return (counts if counted.all() else select(counts, counted)), outcome


def select(counts: Counts, chosen: Booleans) -> Counts:
    """Return the chosen rows of `counts`."""
    return Counts(*(getattr(counts, field)[chosen] for field in Counts.__slots__))


def _restarts(state: npt.NDArray[np.void], now: Readings, reported: Booleans) -> tuple[Booleans, Booleans]:
    """Return which streams began anew and which readings must be held back."""
    told = np.zeros(len(state), bool)
    marked = told.copy()
    for field, value in (("started_at", now.started_at), ("created_at", now.created_at)):
        change = np.abs(value - state[field])
        told |= change > SAME_START_SECONDS
        marked |= change <= SAME_START_SECONDS
    last = state["counters"]
    fell = (now.counters < last).any(1) | ((now.accepted < state["accepted"]) & reported).any(1)
    if not fell.any():
        return told, np.zeros(len(state), bool)
    far = (now.counters < RESTART_SHARE * last)[:, : base.Counter.FIRST_TOKENS].any(1)
    believed = (far & ~marked) | (state["held"] > 0)
    return told | (fell & believed), fell & ~told & ~believed


def _difference(last: Floats, now: Floats, restarted: Booleans, *, new: Booleans) -> Floats:
    """Return the growth of each counter; one that appears, or begins anew, counts from zero."""
    from_zero = restarted[:, None] | (np.isnan(last) & new[:, None])
    return now - np.where(from_zero, 0.0, last)


def _remember(state: npt.NDArray[np.void], now: Readings, kept: Booleans, reported: Booleans) -> None:
    keep = kept[:, None]
    state["at"] = np.where(kept, now.at, state["at"])
    state["counters"] = np.where(keep & ~np.isnan(now.counters), now.counters, state["counters"])
    state["accepted"] = np.where(keep & reported, now.accepted, state["accepted"])
    for field, value in (("started_at", now.started_at), ("created_at", now.created_at)):
        state[field] = np.where(kept & ~np.isnan(value), value, state[field])


def _learn_interval(state: npt.NDArray[np.void], usable: Booleans, seconds: Floats) -> None:
    usual = state["interval"]
    update = np.where(np.isnan(usual), seconds, usual + INTERVAL_MEMORY * (seconds - usual))
    state["interval"] = np.where(usable, update, usual)
