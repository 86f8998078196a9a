"""What a note could not say when it was made is filled in: acceptance and cost after a change of regime.

Another k, or speculation switched off, is told at once, when nothing is known yet of what came after. Its
stream keeps the note, and tells it again, under its id, as soon as `FILLED_SECONDS` have passed and
`LEAST_DRAFTS` were seen. Of speculation that is off there are no drafts: each step gives one token.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from monitor.core import events
from monitor.core.counts import estimates, windows
from monitor.core.detectors import base
from monitor.core.detectors.base import Level
from monitor.core.events import Cost

if TYPE_CHECKING:
    import numpy.typing as npt

    from monitor.core.counts.deltas import Counts
    from monitor.core.counts.estimates import Estimates
    from monitor.core.detectors.base import Floats
    from monitor.core.events import Event
    from monitor.core.streams import Identity, State

FILLED_SECONDS = 300.0
"""Seconds after a note from which on it is filled in: the present window, as what a change costs."""
LEAST_DRAFTS = 500.0
"""Drafts that are seen at least: a few requests, as for the first baseline."""
KEPT_SECONDS = 86400.0
"""Seconds after which a note of a stream without traffic is left as it is."""

OFF = Level(1.0, math.nan, math.nan, (), 0.0)
"""Acceptance without speculation: one token a step, of no drafts."""


def keep(state: State, row: int, event: Event, lengths: tuple[float, ...]) -> None:
    """Keep a note whose other side is not known yet, in place of an older one, and how fast it was before.

    `lengths` are those of the windows, in seconds.
    """
    before, _ = windows.around(state.sums[row : row + 1], event.change_point_at, lengths)
    old = estimates.from_sums(before)
    identity = state.identities[row]
    identity.note, identity.noted = event, _speed(old)
    state.status["noted_at"][row] = event.raised_at


def filled(state: State, counts: Counts, lengths: tuple[float, ...]) -> list[Event]:
    """Return the notes of the streams with news of which enough is known by now, filled in.

    `lengths` are those of the windows, in seconds.
    """
    noted = state.status["noted_at"][counts.rows]
    due = np.flatnonzero((noted > 0.0) & (counts.at - noted >= FILLED_SECONDS))
    found = []
    for index in due.tolist():
        row, at = int(counts.rows[index]), float(counts.at[index])
        event = state.identities[row].note
        fresh = None if event is None else _filled(state, row, event, lengths)
        if fresh is not None:
            found.append(fresh)
        if fresh is not None or event is None or at - event.raised_at > KEPT_SECONDS:
            state.identities[row].note = None
            state.status["noted_at"][row] = 0.0
    return found


def _filled(state: State, row: int, event: Event, lengths: tuple[float, ...]) -> Event | None:
    """Return a note with what its windows show since, None where that is too little."""
    new = _since(state.sums[row : row + 1], event.change_point_at, lengths)
    if new is None:
        return None
    level = OFF if event.kind == "speculation_off" else _level(state.identities[row], new)
    if level is None:
        return None
    facts = event.facts
    compared = base.comparable(event.before, level)
    if compared[0].mal != event.before.mal or compared[1].mal != level.mal:
        told = (
            f"over the {len(compared[0].conditional)} positions that both have, MAL is {compared[1].mal:.2f} "
            f"after {compared[0].mal:.2f}"
        )
        facts = (*facts, told)
    speed = _speed(new, speculating=event.kind != "speculation_off")
    cost = _cost(event.before, level, state.identities[row].noted, speed)
    return replace(event, after=level, cost=cost, facts=facts, updates=event.updates + 1)


def _since(sums: npt.NDArray[np.void], change_at: float, lengths: tuple[float, ...]) -> Estimates | None:
    """Return what one stream did since `change_at` and not before, over the longest window that can tell."""
    for window in sorted(range(len(lengths)), key=lengths.__getitem__, reverse=True):
        found = windows.within(sums, window, lengths[window], change_at, math.inf)
        if found.vectors[0, windows.SECONDS] > 0.0:
            return estimates.from_sums(found)
    return None


def _level(identity: Identity, new: Estimates) -> Level | None:
    drafts = float(np.nan_to_num(new.drafts[0]))
    if drafts < LEAST_DRAFTS:
        return None
    conditional = _conditional(new.accepted[0, : identity.num_speculative_tokens or None], drafts)
    return Level(
        float(new.mal[0]), float(new.mal_low[0]), float(new.mal_high[0]), tuple(conditional.tolist()), drafts
    )


def _conditional(accepted: Floats, drafts: float) -> Floats:
    """Return the conditional acceptance of [P] positions, the eighth of all later ones as `before` has it."""
    kept = accepted[np.isfinite(accepted)]
    tried = np.concatenate(([drafts], kept[:-1]))[: len(kept)]
    if len(kept) > base.POSITIONS:
        last = base.POSITIONS - 1
        kept, tried = (np.append(each[:last], each[last:].sum()) for each in (kept, tried))
    found: Floats = kept[tried > 0.0] / tried[tried > 0.0]
    return found


def _speed(found: Estimates, *, speculating: bool = True) -> tuple[float, float, float]:
    """Return tokens a step, implied and observed TPOT (seconds); without speculation a step is a token."""
    tokens, implied = float(found.tokens_per_step[0]), float(found.implied_tpot_seconds[0])
    if not speculating:
        tokens, implied = 1.0, float(found.step_seconds[0])
    return tokens, implied, float(found.observed_tpot_seconds[0])


def _cost(
    before: Level, after: Level, old: tuple[float, float, float], new: tuple[float, float, float]
) -> Cost:
    """Return what the change costs, from tokens and step times where the page has them, else from MALs."""
    tokens, implied, observed = (
        now / then if then > 0.0 else math.nan for now, then in zip(new, old, strict=True)
    )
    if not math.isfinite(tokens):
        tokens = after.mal / before.mal if before.mal > 0.0 else math.nan
    # Not `events.cost`: a step takes another time with another k or none, so an unknown TPOT stays unknown.
    tpot = implied if math.isfinite(implied) else observed
    return Cost(tokens, tpot, events.benefit_lost(before.mal, after.mal))
