"""Readings of many streams as arrays, a row each: what the arithmetic of `deltas` starts from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from monitor.core.pages.engines import base

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    Floats = npt.NDArray[np.float64]
    Integers = npt.NDArray[np.int64]
    Booleans = npt.NDArray[np.bool_]

LARGEST = 1e18  # no counter gets there


@dataclass(frozen=True, slots=True)
class Readings:
    """Readings as arrays, B rows, the rest [B].

    `growing` [B, C + P] has the canonical counters, NaN where unknown, and after them the accepted tokens of
    each position, 0 past `positions`; `reported` says which of them the page has a place for, `unknown` which
    are NaN. `begun` [B, 2] are the start and the creation time. `since` is when the target's page was read
    without this stream, NaN where there was no such page; `gauge` the engine's own mean acceptance length,
    NaN where it has counters.
    """

    at: Floats
    growing: Floats
    reported: Booleans
    unknown: Booleans
    positions: Integers
    num_speculative_tokens: Integers
    evidence: Integers
    begun: Floats
    since: Floats
    gauge: Floats
    window_drafts: Floats
    running: Floats
    resolution: Floats

    @property
    def counters(self) -> Floats:
        """The canonical counters [B, C]."""
        return self.growing[:, : base.NUM_COUNTERS]


def stack(readings: Sequence[base.Reading], times: Floats, since: Floats, num_positions: int) -> Readings:
    """Return `readings` as arrays with room for `num_positions` positions; an impossible count is unknown."""
    count = len(readings)
    growing = np.zeros((count, base.NUM_COUNTERS + num_positions))
    for row, reading in enumerate(readings):
        values = (*reading.counters, *reading.accepted[:num_positions])
        growing[row, : len(values)] = values
    facts = np.array(
        [
            (
                min(len(reading.accepted), num_positions),
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
    ).reshape(count, 9)
    whole = facts[:, :3].astype(np.int64)
    positions = _possible(growing, whole[:, 0])
    return Readings(
        at=times,
        growing=growing,
        reported=np.arange(-base.NUM_COUNTERS, num_positions) < positions[:, None],
        unknown=np.isnan(growing),
        positions=positions,
        num_speculative_tokens=whole[:, 1],
        evidence=whole[:, 2],
        begun=facts[:, 3:5],
        since=since,
        gauge=facts[:, 5],
        window_drafts=facts[:, 6],
        running=facts[:, 7],
        resolution=facts[:, 8],
    )


def _possible(growing: Floats, positions: Integers) -> Integers:
    """Return the number of positions to believe; impossible values are taken out of `growing` in place."""
    possible = (growing >= 0.0) & (growing < LARGEST)
    if possible.all():
        return positions
    np.copyto(growing[:, : base.NUM_COUNTERS], np.nan, where=~possible[:, : base.NUM_COUNTERS])
    odd = ~possible[:, base.NUM_COUNTERS :].all(1)
    if not odd.any():
        return positions
    growing[odd, base.NUM_COUNTERS :] = 0.0
    return np.where(odd, 0, positions)
