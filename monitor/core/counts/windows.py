"""Counts summed over windows: the last interval, the last minutes, the last hours, everything.

A sum is one vector: how long and how many intervals it covers, what the intervals' own spread needs, the
canonical counters and the accepted tokens per position. A window is a ring of twelve slots, the current
one begun: it costs the same whatever the scrape interval.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from monitor.core.pages.engines import base

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from monitor.core.counts import deltas

    Floats = npt.NDArray[np.float64]

SECONDS, INTERVALS, DRAFTS_SQUARED, ACCEPTED_SQUARED, DRAFTS_ACCEPTED = range(5)
COUNTERS = slice(5, 5 + base.NUM_COUNTERS)
POSITIONS = slice(5 + base.NUM_COUNTERS, None)
SLOTS = 12


@dataclass(frozen=True, slots=True)
class Sums:
    """Sums over one window: `vectors` [N, V]; `known` [N, C] where the stream's pages have the counter.

    `at_request_end` [N]: the engine credits what it counted of a request when the request ends.
    """

    vectors: Floats
    known: npt.NDArray[np.bool_]
    positions: npt.NDArray[np.int64]
    num_speculative_tokens: npt.NDArray[np.int64]
    at_request_end: npt.NDArray[np.bool_]


def dtype(num_windows: int, num_positions: int) -> np.dtype[np.void]:
    """Return the fields of one stream's row."""
    width = POSITIONS.start + num_positions
    return np.dtype(
        [
            ("slots", "f8", (num_windows, SLOTS, width)),  # rings of sums: by window, slot, column
            ("slot", "i8", num_windows),  # newest slot of each ring, its number since 1970
            ("last", "f8", width),  # sums of the last interval
            ("total", "f8", width),  # sums of everything counted
            ("known", "?", base.NUM_COUNTERS),  # counters that were ever reported
            ("positions", "i8"),  # positions on the last page with drafts
            ("most_positions", "i8"),  # most that there ever were
            ("num_speculative_tokens", "i8"),  # k, 0: unknown
            ("at_request_end", "?"),  # drafts are credited when requests end
        ],
    )


def add(state: npt.NDArray[np.void], counts: deltas.Counts, lengths: tuple[float, ...]) -> None:
    """Add `counts` to the rows of `state` (in the same order) in place; `lengths` in seconds."""
    unknown = np.isnan(counts.values)
    vectors = _vectors(counts, unknown)
    state["last"] = vectors
    state["total"] += vectors
    state["known"] |= ~unknown
    np.copyto(state["positions"], counts.positions, where=counts.positions > 0)
    state["most_positions"] = np.maximum(state["most_positions"], counts.positions)
    state["num_speculative_tokens"] = counts.num_speculative_tokens
    at_request_end = counts.evidence == base.Evidence.REQUEST_END
    state["at_request_end"] = np.where(
        counts.evidence == base.Evidence.NONE, state["at_request_end"], at_request_end
    )
    _expire(state, counts.at, lengths)
    slots = state["slots"]
    rows = np.arange(len(slots))[:, None]
    windows = np.arange(len(lengths))
    slots[rows, windows, state["slot"] % SLOTS] += vectors[:, None, :]


def over(state: npt.NDArray[np.void], window: int, length: float, now: Floats) -> Sums:
    """Return the sums of the window of `length` seconds that ends at `now` [N]."""
    age = np.floor(now / (length / SLOTS)).astype(np.int64) - state["slot"][:, window]
    slot = state["slot"][:, window, None] - (state["slot"][:, window, None] - np.arange(SLOTS)) % SLOTS
    current = slot + SLOTS > (state["slot"][:, window] + age)[:, None]
    vectors = np.where(current[:, :, None], state["slots"][:, window], 0.0).sum(1)
    return _sums(state, vectors)


def picked(sums: Sequence[Sums], window_of_row: npt.NDArray[np.intp]) -> Sums:
    """Return the sums of each stream over a window of its own (`window_of_row` [N])."""
    vectors = np.stack([each.vectors for each in sums])[window_of_row, np.arange(len(window_of_row))]
    return replace(sums[0], vectors=vectors)


def last(state: npt.NDArray[np.void]) -> Sums:
    """Return the sums of the last interval."""
    return _sums(state, state["last"])


def total(state: npt.NDArray[np.void]) -> Sums:
    """Return the sums of everything counted, with every position that was ever reported."""
    return replace(_sums(state, state["total"]), positions=state["most_positions"])


def _sums(state: npt.NDArray[np.void], vectors: Floats) -> Sums:
    names = ("known", "positions", "num_speculative_tokens", "at_request_end")
    return Sums(vectors, *(state[name] for name in names))


def _vectors(counts: deltas.Counts, unknown: npt.NDArray[np.bool_]) -> Floats:
    vectors = np.empty((len(counts.rows), POSITIONS.start + counts.accepted.shape[1]))
    values = np.where(unknown, 0.0, counts.values)
    drafts = values[:, base.Counter.DRAFTS]
    accepted = values[:, base.Counter.ACCEPTED_TOKENS]
    vectors[:, SECONDS] = counts.seconds
    vectors[:, INTERVALS] = drafts > 0
    vectors[:, DRAFTS_SQUARED] = drafts * drafts
    vectors[:, ACCEPTED_SQUARED] = accepted * accepted
    vectors[:, DRAFTS_ACCEPTED] = drafts * accepted
    vectors[:, COUNTERS] = values
    vectors[:, POSITIONS] = counts.accepted
    return vectors


def _expire(state: npt.NDArray[np.void], times: Floats, lengths: tuple[float, ...]) -> None:
    """Move each ring on to the slot of `times` and clear the slots that were left behind.

    A ring that is more than a slot ahead has seen a clock that was set back since, and begins anew.
    """
    slot = np.floor(times[:, None] / (np.array(lengths) / SLOTS)).astype(np.int64)
    ahead = slot < state["slot"] - 1
    if ahead.any():
        state["slots"][ahead] = 0.0
        state["slot"] = np.where(ahead, slot, state["slot"])
    advance = np.minimum(np.maximum(slot - state["slot"], 0), SLOTS)
    if advance.any():
        after = (np.arange(SLOTS) - state["slot"][:, :, None] - 1) % SLOTS
        state["slots"][after < advance[:, :, None]] = 0.0
        state["slot"] = np.maximum(slot, state["slot"])


def around(
    row: npt.NDArray[np.void], change_at: float, lengths: tuple[float, ...], until: float = math.inf
) -> tuple[Sums, Sums]:
    """Return the sums of one stream before and after `change_at` (unix seconds), as far as the rings reach.

    What came after is taken from the finest ring that reaches back to the change, what was before from the
    longest ring; the slot that holds the change belongs to neither where others are there. Of a stream that
    is looked at from another's point of time, only slots that ended by `until` count, and none that a page
    after it may have pushed out: so it does not matter whether that page was read in the same batch.
    """
    order = sorted(range(len(lengths)), key=lambda window: lengths[window])
    seen = [min(row["slot"][0, w], until // (lengths[w] / SLOTS)) for w in range(len(lengths))]
    finest = next((w for w in order if seen[w] - change_at // (lengths[w] / SLOTS) < SLOTS - 1), order[-1])
    after = since(row, finest, change_at, lengths, until)
    before = _until(row, order[-1], change_at, lengths, until)
    if not before.vectors[0, INTERVALS]:
        before = _until(row, finest, change_at, lengths, until)
    return before, after


def within(
    state: npt.NDArray[np.void], window: int, length: float, after: Floats | float, until: Floats | float
) -> Sums:
    """Return the sums of those slots of a window's ring that come after one time and before another [N].

    Both in unix seconds; the slots that hold them belong to neither side, so that nothing that is counted
    later than `until` changes the answer.
    """
    newest = state["slot"][:, window, None]
    slot = newest - (newest - np.arange(SLOTS)) % SLOTS
    seconds = length / SLOTS
    chosen = slot > np.reshape(np.floor(np.divide(after, seconds)), (-1, 1))
    chosen &= slot < np.reshape(np.floor(np.divide(until, seconds)), (-1, 1))
    return _sums(state, np.where(chosen[:, :, None], state["slots"][:, window], 0.0).sum(1))


def since(
    row: npt.NDArray[np.void], window: int, start: float, lengths: tuple[float, ...], until: float = math.inf
) -> Sums:
    """Return the sums over a window of one stream from `start` to `until` (unix seconds).

    The slot that holds `start` counts only where no later one has anything.
    """
    slot_seconds = lengths[window] / SLOTS
    pushed_out = _pushed_out(slot_seconds, until)
    later = within(row, window, lengths[window], max(start, pushed_out), until)
    if later.vectors[0, INTERVALS]:
        return later
    return within(row, window, lengths[window], max(start - slot_seconds, pushed_out), until)


def _until(
    row: npt.NDArray[np.void], window: int, end: float, lengths: tuple[float, ...], until: float
) -> Sums:
    """Return the sums over a window of one stream before `end`, as they stood at `until` (unix seconds)."""
    pushed_out = _pushed_out(lengths[window] / SLOTS, until)
    return within(row, window, lengths[window], pushed_out, min(end, until))


def _pushed_out(slot_seconds: float, until: float) -> float:
    """Return the time of the slot that a page after `until` may have pushed out; -inf for none."""
    return until - (SLOTS - 1) * slot_seconds if math.isfinite(until) else -math.inf
