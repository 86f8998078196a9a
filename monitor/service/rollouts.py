"""The word on some streams against others, from what history has of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from monitor.core import events
from monitor.core.streams import comparing

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from monitor.core.economics.verdicts import ReleaseVerdict
    from monitor.core.streams import State
    from monitor.core.streams.comparing import Compared, Recorded, SpeedVerdict
    from monitor.core.streams.history import HistoryBucket
    from monitor.service.locking import StateLock
    from monitor.store import Store

LONGEST_SECONDS = 7 * 86_400.0
"""How far back a candidate is looked for: older ones are no news."""

EARLIER_SECONDS = 86_400.0
"""How long before the candidate the baseline is looked at, where they did not run at the same time."""


@dataclass(frozen=True, slots=True)
class StateAndHistory:
    """The state, the lock that guards it, and the store that has the history."""

    state: State
    lock: StateLock
    store: Store


def compared(
    kept: StateAndHistory,
    sides: tuple[Sequence[str], Sequence[str]],
    span: tuple[float | None, float],
    margin: float,
) -> dict[str, object]:
    """Return the word on the second side's streams (ids) against the first's.

    `span` is from when the candidate counts (None: from its first draft of the last week) until now, unix
    seconds. `margin` is the share whose loss must be excluded before no difference is said.
    """
    given, now = span
    start = now - LONGEST_SECONDS if given is None else given
    buckets = {stream: _drafted(kept.store, stream, start, now) for stream in sides[1]}
    since = min((each[0].at for each in buckets.values() if each), default=start)
    earliest = since - EARLIER_SECONDS
    buckets |= {stream: _drafted(kept.store, stream, earliest, now) for stream in sides[0]}
    with kept.lock:
        baseline, candidate = (_side(kept.state, streams, buckets) for streams in sides)
    found = comparing.compared(baseline, candidate, margin)
    return as_record(found) | {"since": since, "margin": margin}


def _drafted(store: Store, stream: str, start: float, end: float) -> list[HistoryBucket]:
    return [bucket for bucket in store.history(stream, start, end) if bucket.drafts > 0]


def _side(state: State, streams: Sequence[str], buckets: Mapping[str, list[HistoryBucket]]) -> Recorded:
    side, rows = comparing.Recorded(), {each.id: row for row, each in enumerate(state.identities)}
    for stream in streams:
        if stream in rows:
            comparing.add_history(side, state, rows[stream], buckets[stream])
    return side


def as_record(found: Compared) -> dict[str, object]:
    """Return the word with what it rests on, as JSON; unknown numbers are None."""
    return {
        "verdict": found.word,
        "by": found.by,
        **_acceptance(found.verdict),
        **_speed(found.speed),
        "positions": found.positions,
        "minutes": found.minutes,
        "same_time": found.same_time,
    }


def _acceptance(verdict: ReleaseVerdict | None) -> dict[str, object]:
    return {
        "mal_difference": None if verdict is None else events.number(verdict.difference),
        "mal_difference_low": None if verdict is None else events.number(verdict.low),
        "mal_difference_high": None if verdict is None else events.number(verdict.high),
        "confidence": None if verdict is None else verdict.confidence,
    }


def _speed(speed: SpeedVerdict | None) -> dict[str, object]:
    return {
        "tokens_per_second_verdict": "not_enough" if speed is None else speed.word,
        "tokens_per_second_ratio": None if speed is None else speed.ratio,
        "tokens_per_second_ratio_low": None if speed is None else speed.low,
        "tokens_per_second_ratio_high": None if speed is None else speed.high,
    }
