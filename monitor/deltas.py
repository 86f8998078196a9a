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

from monitor import implied, restarts
from monitor.engines import base

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    Floats = npt.NDArray[np.float64]
    Integers = npt.NDArray[np.int64]
    Booleans = npt.NDArray[np.bool_]

GAP_INTERVALS = 2.5
INTERVAL_MEMORY = 0.1
LARGEST = 1e18  # no counter gets there

_SPECULATION = slice(base.Counter.DRAFTS, base.Counter.ACCEPTED_TOKENS + 1)


class Outcome(IntEnum):
    """What became of a reading."""

    COUNTED = 0  # its difference to the last one is in the counts
    BASE = 1  # the first of its stream: later ones are measured from it
    DUPLICATE = 2  # as old as the last one
    LATE = 3  # older than the last one
    HELD = 4  # a counter went back without a restart: kept out until the next page tells which
    WAITING = 5  # a counter with few digits has not moved far enough to be read: the next page spans it


@dataclass(frozen=True, slots=True)
class Readings:
    """Readings as arrays, B rows: `counters` [B, C], `accepted` [B, P] (0 past `positions`), the rest [B].

    `since` is when the target's page was read without this stream, NaN where there was no such page; `gauge`
    the engine's own mean acceptance length, NaN where it has counters.
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
    gauge: Floats
    window_drafts: Floats
    running: Floats
    resolution: Floats

    def reported(self) -> Booleans:
        """Return which positions [B, P] each reading has."""
        result: Booleans = np.arange(self.accepted.shape[1]) < self.positions[:, None]
        return result


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
            ("at", "f8"),
            ("counters", "f8", base.NUM_COUNTERS),
            ("accepted", "f8", num_positions),
            ("started_at", "f8"),
            ("created_at", "f8"),
            ("interval", "f8"),
            ("positions", "i8"),
            ("held", "i8"),
            ("held_total", "f8"),
            ("restarts", "i8"),
            *implied.FIELDS,
        ],
    )


def allocate(num_rows: int, num_positions: int) -> npt.NDArray[np.void]:
    """Return rows of streams that were never read."""
    state = np.zeros(num_rows, dtype(num_positions))
    for field in ("at", "counters", "started_at", "created_at", "interval", "held_total"):
        state[field] = np.nan
    implied.clear(state)
    return state


def stack(readings: Sequence[base.Reading], at: Floats, since: Floats, num_positions: int) -> Readings:
    """Return `readings` as arrays with room for `num_positions` positions; an impossible count is unknown."""
    count = len(readings)
    accepted = np.zeros((count, num_positions))
    positions = np.zeros(count, np.int64)
    for row, reading in enumerate(readings):
        if reading.accepted:
            positions[row] = min(len(reading.accepted), num_positions)
            accepted[row, : positions[row]] = reading.accepted[:num_positions]
    facts = np.array(
        [
            (
                reading.num_speculative_tokens,
                reading.evidence,
                reading.started_at,
                reading.created_at,
                reading.mean_acceptance_length,
                reading.window_drafts,
                reading.running,
                reading.resolution,
            )
            for reading in readings
        ],
    ).reshape(count, 8)
    counters = np.array([reading.counters for reading in readings]).reshape(count, base.NUM_COUNTERS)
    possible: Booleans = np.logical_and.reduce(_is_possible(accepted), axis=1)
    return Readings(
        at=at,
        counters=np.where(_is_possible(counters), counters, np.nan),
        accepted=np.where(possible[:, None], accepted, 0.0),
        positions=np.where(possible, positions, 0),
        num_speculative_tokens=facts[:, 0].astype(np.int64),
        evidence=facts[:, 1].astype(np.int64),
        started_at=facts[:, 2],
        created_at=facts[:, 3],
        since=since,
        gauge=facts[:, 4],
        window_drafts=facts[:, 5],
        running=facts[:, 6],
        resolution=facts[:, 7],
    )


def _is_possible(values: Floats) -> Booleans:
    return (values >= 0.0) & (values < LARGEST)


def between(
    state: npt.NDArray[np.void], rows: npt.NDArray[np.intp], now: Readings
) -> tuple[Counts, Integers]:
    """Return the counts since the last reading and the `Outcome` of each; `state` is changed in place.

    `state` holds the streams' rows in the order of `rows`; the counts hold those of them that were counted.
    """
    before, outcome = _in_order(state, now)
    switched = implied.switched(state, now)
    if switched.any():
        _forget(state, switched)
        outcome[switched & (outcome == Outcome.COUNTED)] = Outcome.BASE
    if now.resolution.any():
        outcome[(outcome == Outcome.COUNTED) & implied.unresolved(state, now)] = Outcome.WAITING
    restarted, behind = restarts.seen(state, now)
    now = _whole(state, now, restarted)
    counted = outcome == Outcome.COUNTED
    _hold(state, now, outcome, behind & counted)
    counted &= ~behind
    restarted &= counted
    state["restarts"] += restarted

    reported = now.reported()
    seconds = _seconds(now, before, restarted)
    counts = Counts(
        rows=rows,
        at=now.at,
        seconds=seconds,
        values=_difference(state["counters"], now.counters, restarted, counted),
        accepted=now.accepted - np.where(reported & ~restarted[:, None], state["accepted"], 0.0),
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
    _remember(state, now, kept, restarted, reported)
    _learn_interval(state, counted & ~restarted, seconds)
    return (counts if counted.all() else select(counts, counted)), outcome


def _in_order(state: npt.NDArray[np.void], now: Readings) -> tuple[Floats, Integers]:
    """Return when each stream was read before, and what becomes of the readings as far as time tells."""
    before = state["at"].copy()
    outcome = np.full(len(before), Outcome.COUNTED, np.int64)
    if (now.at > before).all():
        return before, outcome
    first = np.isnan(before)
    outcome[now.at == before] = Outcome.DUPLICATE
    outcome[now.at < before] = Outcome.LATE
    outcome[first & np.isnan(now.since)] = Outcome.BASE
    return np.where(first, now.since, before), outcome


def _seconds(now: Readings, before: Floats, restarted: Booleans) -> Floats:
    """Return how long the counters have grown: since the last page, or since a start after it."""
    if not restarted.any():
        return now.at - before
    within = restarted & (now.started_at > before) & (now.started_at < now.at)
    return now.at - np.where(within, now.started_at, before)


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
    state["counters"] = np.where(chosen[:, None], np.nan, state["counters"])
    state["accepted"] = np.where(chosen[:, None], 0.0, state["accepted"])
    state["positions"] = np.where(chosen, 0, state["positions"])


def _whole(state: npt.NDArray[np.void], now: Readings, restarted: Booleans) -> Readings:
    """Return `now` with all of speculation's counters unknown in rows where a known one is missing.

    After a restart nothing is missing: a series may come with its first event.
    """
    unknown = np.isnan(now.counters[:, _SPECULATION])
    bare = now.positions == 0
    if not (unknown.any() or bare.any()):
        return now
    lost = (unknown & ~np.isnan(state["counters"][:, _SPECULATION])).any(1)
    lost |= bare & (state["positions"] > 0)
    lost &= ~restarted
    if not lost.any():
        return now
    counters = now.counters.copy()
    counters[lost, _SPECULATION] = np.nan
    accepted = np.where(lost[:, None], 0.0, now.accepted)
    return replace(now, counters=counters, accepted=accepted, positions=np.where(lost, 0, now.positions))


def _hold(state: npt.NDArray[np.void], now: Readings, outcome: Integers, held: Booleans) -> None:
    """Keep readings that are behind out of the counts, and count how many follow each other."""
    if held.any():
        outcome[held] = Outcome.HELD
        np.copyto(state["held_total"], restarts.total(now), where=held)
    elif not state["held"].any():
        return
    state["held"] = np.where(held, state["held"] + 1, np.where(outcome == Outcome.COUNTED, 0, state["held"]))


def _difference(last: Floats, now: Floats, restarted: Booleans, counted: Booleans) -> Floats:
    """Return the growth of each counter; one that appears, or begins anew, counts from zero."""
    from_zero = (np.isnan(last) & counted[:, None]) | restarted[:, None]
    return now - np.where(from_zero, 0.0, last)


def _remember(
    state: npt.NDArray[np.void], now: Readings, kept: Booleans, restarted: Booleans, reported: Booleans
) -> None:
    keep = kept[:, None]
    anew = restarted[:, None]
    np.copyto(state["at"], now.at, where=kept)
    np.copyto(state["counters"], now.counters, where=keep & (anew | ~np.isnan(now.counters)))
    np.copyto(state["accepted"], now.accepted, where=keep & (anew | reported))
    np.copyto(state["positions"], now.positions, where=kept & (restarted | (now.positions > 0)))
    np.copyto(state["started_at"], now.started_at, where=kept & ~np.isnan(now.started_at))
    np.copyto(state["created_at"], now.created_at, where=kept & ~np.isnan(now.created_at))


def _learn_interval(state: npt.NDArray[np.void], usable: Booleans, seconds: Floats) -> None:
    """Follow the usual interval; a gap counts as a little longer than usual, so a new rhythm is learnt."""
    usual = state["interval"]
    bounded = np.minimum(seconds, GAP_INTERVALS * usual)
    update = np.where(np.isnan(usual), seconds, usual + INTERVAL_MEMORY * (bounded - usual))
    state["interval"] = np.where(usable, update, usual)
