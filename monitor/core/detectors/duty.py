"""What is judged of a stream already, against what, and how long what is not yet will take."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from monitor.core.detectors import base, inheritance, plunge, trend

if TYPE_CHECKING:
    from monitor.core.detectors.base import Bools, Floats, State

WARM_SECONDS = 1800.0
"""Seconds of baseline before level and shape alarm: several requests' lives, so that their mix was seen."""

WARM_BUCKETS = 40
"""Buckets of baseline before they alarm: ten minutes of 15 s scrapes."""

YOUNG_BUCKETS = 12
"""Buckets of baseline before a fall is told of a stream that is not warm: three minutes of 15 s scrapes."""

AGAINST = {
    inheritance.NOBODY: "its own first minutes",
    inheritance.SAME: "the model reference of its kind",
    inheritance.BEFORE: "the model's last reference, of another way of serving",
}
"""What a stream is held against, by what it began with."""


@dataclass(frozen=True, slots=True)
class Duty:
    """What is `judged` of a stream, what is `missing` (each with the seconds of traffic that it takes still).

    `against` says what the stream is held against; `seconds` until all is judged, 0 where it is.
    """

    judged: tuple[str, ...]
    missing: tuple[tuple[str, float], ...]
    against: str

    @property
    def seconds(self) -> float:
        """How long until all is judged, in seconds with traffic."""
        return max((seconds for _, seconds in self.missing), default=0.0)


def warm(state: State, times: Floats) -> Bools:
    """Return the rows [B] in which level and shape judge all that they can."""
    baseline = state["baseline"]
    result: Bools = (baseline["buckets"] >= WARM_BUCKETS) & (times - baseline["began_at"] >= WARM_SECONDS)
    return result


def complete(state: State, times: Floats) -> Bools:
    """Return the rows [B] in which level, shape and trend are on duty."""
    result: Bools = warm(state, times) & (state["trend"]["blocks"] > trend.START_BLOCKS)
    return result


def of_row(state: State, row: int, now: float) -> Duty:
    """Return what is judged of one row at a time (unix seconds)."""
    baseline = state["baseline"][row]
    buckets, drafts = float(baseline["buckets"]), float(baseline["sums"][base.DRAFTS])
    age = max(now - float(baseline["began_at"]), 0.0) if buckets else 0.0
    pace = age / buckets if buckets and age > 0.0 else base.SCRAPE_SECONDS
    blocks = max(trend.START_BLOCKS + 1.0 - float(state["trend"]["blocks"][row]), 0.0)
    young = max(YOUNG_BUCKETS - buckets, 0.0) * pace
    starting = max(plunge.LEAST_BUCKETS - buckets, 1.0 if drafts < plunge.LEAST_DRAFTS else 0.0, 0.0) * pace
    takes = {
        "dead and silent drafts": 0.0,
        "collapses": starting,
        "falls of a fifth of the benefit": young,
        "smaller steps and changes of shape": max((WARM_BUCKETS - buckets) * pace, WARM_SECONDS - age, 0.0),
        "slow changes": young + blocks * (trend.BLOCK_SECONDS + 0.5 * base.SCRAPE_SECONDS),
    }
    return Duty(
        judged=tuple(name for name, seconds in takes.items() if seconds <= 0.0),
        missing=tuple((name, seconds) for name, seconds in takes.items() if seconds > 0.0),
        against=AGAINST[int(state["heir"]["from"][row])] if buckets else "nothing: it had no drafts yet",
    )


def sentence(duty: Duty) -> str:
    """Return a duty in words, empty where all is judged."""
    if not duty.missing:
        return ""
    missing = ", ".join(f"{name} in {_span(left)}" for name, left in duty.missing)
    return (
        f"judged so far, against {duty.against}: {', '.join(duty.judged)}; not yet: {missing}; "
        f"ok after {_span(duty.seconds)} more with traffic"
    )


def _span(seconds: float) -> str:
    minute = 60.0
    return f"{math.ceil(seconds / minute)} min" if seconds >= minute else f"{math.ceil(seconds)} s"
