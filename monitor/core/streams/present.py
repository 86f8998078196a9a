"""What an open change is like now: level, cost and causes are looked at again while it lasts.

A change that sinks further, or is found to have come with longer prompts, is told as it is and not as it was
on its first minute. What looks like its end is not taken for its present: the event keeps what it was like
until it is proven over. Looks are at least a minute of the data's time apart and at one stream's own rows, so
that they do not depend on how scrapes are batched; what moved by chance only is left as it was told.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from monitor.core import detectors, events
from monitor.core.counts import estimates, windows
from monitor.core.detectors.base import Level
from monitor.core.events import attribution
from monitor.core.streams import stream_events, surroundings

if TYPE_CHECKING:
    import numpy.typing as npt

    from monitor.core.counts.deltas import Counts
    from monitor.core.counts.estimates import Estimates
    from monitor.core.events import Event
    from monitor.core.events.attribution import Cause
    from monitor.core.streams import State

LOOK_SECONDS = 60.0
MINUTES_OF_LOOKS = frozenset((1, 2, 5, 10, 20, 30, 45, 60))  # at which causes are looked at; peers cost time
LEAST_SECONDS = 300.0  # of the shortest window that is the present: a minute is a few requests
ENOUGH_DRAFTS = 500.0
MIDWAY = 0.5
NOTEWORTHY_WEIGHT = 0.2  # a cause whose weight moved so far is told again
LOOKS_ALIVE = 0.2  # accepted tokens a draft, of a change whose level before is not known


def looked_at(
    state: State, counts: Counts, troubled: npt.NDArray[np.bool_], lengths: tuple[float, ...]
) -> list[Event]:
    """Return the open events of rows of `counts` that are not as they were told any more.

    troubled [B]: the rows whose detectors have a trouble open; `lengths` are those of the windows (seconds).
    """
    found = []
    for index in np.flatnonzero(troubled).tolist():
        row, at = int(counts.rows[index]), float(counts.at[index])
        event = state.identities[row].event
        if event is not None and not at - event.present_at < LOOK_SECONDS and not _ending(state, row, event):
            told = _looked_at(state, row, event, at, lengths)
            if told is not None:
                state.identities[row].event = told
                found.append(told)
    return found


def _ending(state: State, row: int, event: Event) -> bool:
    """Return whether the last interval is nearer to what was before than to what the event says."""
    latest = float(estimates.from_sums(windows.last(state.sums[row : row + 1])).mal[0])
    if not math.isfinite(latest) or not math.isfinite(event.after.mal):
        return not math.isfinite(latest)
    if not math.isfinite(event.before.mal):
        return latest > 1.0 + LOOKS_ALIVE
    back = (latest - event.after.mal) / (event.before.mal - event.after.mal or math.inf)
    return back > MIDWAY


def _looked_at(
    state: State, row: int, event: Event, unix_seconds: float, lengths: tuple[float, ...]
) -> Event | None:
    own = state.sums[row : row + 1]
    now = _now(own, event.change_point_at, lengths)
    after = _level(now)
    moved = events.moved(event, after)
    why = attribution.Attribution(event.facts, event.causes)
    before, since = windows.around(own, event.change_point_at, lengths)
    reached = before.vectors[0, windows.INTERVALS] > 0  # later on the sums have forgotten what was before
    if reached and causes_due(event, unix_seconds):
        explained, unexplained = detectors.standing(state.watch, row)[1:]
        change = replace(
            surroundings.of_event(event, unix_seconds), explained=explained, unexplained=unexplained
        )
        why = stream_events.causes(state, row, event.kind, change, before, since)
    if not moved and not tells_more(event.causes, why.causes):
        return None
    level, costs = event.after, event.cost
    if moved:
        level = after
        tokens = float(now.tokens_per_step[0]) / event.past.tokens_per_step
        tpot = float(now.implied_tpot_seconds[0]) / event.past.tpot_seconds
        costs = events.cost(event.before.mal, after.mal, tokens, tpot)
    return replace(events.present(event, unix_seconds, level, costs, why.causes), facts=why.facts)


def causes_due(event: Event, unix_seconds: float) -> bool:
    """Return whether causes are looked at again now: requests tell their lengths when they end."""
    return (unix_seconds - event.raised_at) // LOOK_SECONDS in MINUTES_OF_LOOKS


def tells_more(before: tuple[Cause, ...], after: tuple[Cause, ...]) -> bool:
    """Return whether another cause comes first now, or one has become much likelier or less likely."""
    if before[:1] == after[:1] or not before or not after:
        return len(before) < len(after)
    weights = {each.cause: each.weight for each in before}
    moved = max(abs(each.weight - weights.get(each.cause, 0.0)) for each in after)
    return before[0].cause != after[0].cause or moved >= NOTEWORTHY_WEIGHT


def _now(own: npt.NDArray[np.void], change_at: float, lengths: tuple[float, ...]) -> Estimates:
    """Return the estimates over the shortest window of minutes with enough drafts, all after the change."""
    order = sorted(
        (w for w, length in enumerate(lengths) if length >= LEAST_SECONDS), key=lengths.__getitem__
    )
    made = estimates.from_sums(windows.since(own, order[0], change_at, lengths))
    for window in order[1:]:
        if made.drafts[0] >= ENOUGH_DRAFTS:
            break
        made = estimates.from_sums(windows.since(own, window, change_at, lengths))
    return made


def _level(now: Estimates) -> Level:
    conditional = now.conditional[0]
    return Level(
        float(now.mal[0]),
        float(now.mal_low[0]),
        float(now.mal_high[0]),
        tuple(conditional[np.isfinite(conditional)].tolist()),
        float(now.drafts[0]),
    )
