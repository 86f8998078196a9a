"""Which targets and streams are still there: closes the events of those that left, in the end forgets them.

A target that is no longer listed keeps its baseline for a while, so that a pod of the same name goes on with
it. Its open event is closed sooner, since nobody can mend an engine that is gone; if the target comes back
before it is forgotten, the event is open again. A stream whose name has not been on its target's pages for as
long is forgotten too: a page can have new names every day.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

import numpy as np

from monitor.core import events, streams
from monitor.core.streams import fleet_events, release_events

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    import numpy.typing as npt

    from monitor.core.events import Event
    from monitor.core.streams import Limits, State, TargetState


def attend(state: State, limits: Limits, listed: Collection[str], now: float) -> list[Event]:
    """Return the events that close because their targets left, and those that are open again.

    `listed` are the names of all targets there are at `now` (unix seconds).
    """
    found: list[Event] = []
    for name, target in state.targets.items():
        if name in listed:
            if target.left:
                found += _open_events(state, target)
            target.gone_at, target.left = math.nan, False
        elif math.isnan(target.gone_at):
            target.gone_at = now
        elif not target.left and now - target.gone_at >= limits.leave_seconds:
            target.left = True
            found += [_closed(event, target.gone_at, now) for event in _open_events(state, target)]
    vanished = _vanished(state, limits)
    for row in vanished.tolist():
        identity = state.identities[row]
        if not state.targets[identity.key.target].left:
            last_at = float(state.status["last_at"][row])
            found += [_closed(event, last_at, now, "stream") for event in streams.open_events(identity)]
        identity.event = identity.doubt = identity.net_loss = identity.shortfall = identity.outset = None
    away = [state.targets[identity.key.target].left for identity in state.identities]
    gone = np.array(away, bool)
    gone[vanished] = True
    return [*found, *fleet_events.deserted(state, gone, now), *release_events.deserted(state, gone, now)]


def moved(state: State, name: str, engine: str, now: float) -> list[Event]:
    """Return the events that change because the target `name` answers as `engine` now.

    The streams of the engine that answered before end: nobody judges them any more. One that is back goes on.
    """
    target = state.targets[name]
    if engine == target.engine:
        return []
    target.engine = engine
    found: list[Event] = []
    for row in sorted(target.rows):
        identity = state.identities[row]
        if identity.engine in ("", engine):
            found += _back(state, row)
        elif not identity.ended:
            fact = f"the address answers as {engine} now: the stream of {identity.engine} was replaced"
            found += [events.closed(event, now, fact) for event in streams.open_events(identity)]
            identity.ended = fact
            state.status["ended"][row] = True
    return found


def _back(state: State, row: int) -> list[Event]:
    identity = state.identities[row]
    if not identity.ended:
        return []
    identity.ended = ""
    state.status["ended"][row] = False
    return streams.open_events(identity)


def forget(state: State, limits: Limits, now: float) -> None:
    """Forget targets and streams that have been gone for long at `now`; `attend` has closed their events."""
    over = {
        name
        for name, target in state.targets.items()
        if target.left and now - target.gone_at >= limits.forget_seconds
    }
    vanished = set(_vanished(state, limits).tolist())
    if not over and not vanished:
        return
    kept = np.array(
        [
            row
            for row, identity in enumerate(state.identities)
            if identity.key.target not in over and row not in vanished
        ],
        np.intp,
    )
    state.keep(kept)
    for name in over:
        del state.targets[name]


def _vanished(state: State, limits: Limits) -> npt.NDArray[np.intp]:
    """Return the rows of streams that their target's pages have not had for long, sooner where crowded."""
    patience = {
        name: limits.crowded_seconds if streams.is_crowded(state, name, limits) else limits.forget_seconds
        for name in state.targets
    }
    names = [identity.key.target for identity in state.identities]
    good_at = np.array([state.targets[name].good_at for name in names], float)
    return np.flatnonzero(good_at - state.status["last_at"] >= np.array([patience[name] for name in names]))


def _open_events(state: State, target: TargetState) -> Iterable[Event]:
    return [event for row in sorted(target.rows) for event in streams.open_events(state.identities[row])]


def _closed(event: Event, gone_at: float, now: float, gone: Literal["target", "stream"] = "target") -> Event:
    seconds = now - gone_at
    where = "listed" if gone == "target" else "on its target's page"
    fact = f"the {gone} has not been {where} for {seconds:.0f} s: closed without recovery"
    return replace(events.closed(event, now), facts=(*event.facts, fact))
