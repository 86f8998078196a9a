"""Conditional acceptance of each position before and now, with intervals, and its baseline."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from monitor.web import fields, intervals
from monitor.web.intervals import Share

if TYPE_CHECKING:
    from monitor.web.fields import Record
    from monitor.web.view import StreamView

_NOTHING = Share(None)


@dataclass(frozen=True, slots=True)
class Position:
    """One position of the draft; None where unknown. `marginal` is of the window of the estimate."""

    position: int
    marginal: float | None
    before: Share
    now: Share
    baseline: float | None


def of(stream: StreamView, closeup: Record) -> list[Position]:
    """Return the positions of a stream, the first first; `closeup` is its close look."""
    sides = (intervals.by_position(fields.record(closeup, side)) for side in ("before", "now"))
    before, now = (dict(enumerate(side)) for side in sides)
    marginal = dict(enumerate(fields.numbers(stream.estimate, "marginal")))
    baseline = dict(enumerate(stream.baseline_conditional))
    return [
        Position(
            index,
            marginal.get(index),
            before.get(index, _NOTHING),
            now.get(index, _NOTHING),
            baseline.get(index),
        )
        for index in range(max(len(marginal), len(before), len(now), len(baseline)))
    ]
