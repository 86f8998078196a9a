"""What the operator pinned as the acceptance to expect: a stream below it with proof is an event.

A baseline and a model reference are learnt, so they tell how a stream stands against what was; what is pinned
(`Pinned`, of a model and perhaps a k) is told by people and never learnt away. A stream is held against it
every `JUDGE_SECONDS` of its data over two windows, of as long and of an hour, both since its regime began.
`IN_A_ROW` short windows, or one of an hour, whose whole 95 % interval lies below what is tolerated prove that
it falls short; as many above it prove that it is reached again. What proves neither changes nothing.

Where both sides tell positions those that both have are compared: a larger k has a larger MAL by itself.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import numpy as np

from monitor.core import events, streams
from monitor.core.counts import estimates, windows
from monitor.core.detectors.base import Level
from monitor.core.events import attribution
from monitor.core.streams import fleet_events
from monitor.core.vocabulary import DIRECTION_OF

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy.typing as npt

    from monitor.core.counts.deltas import Counts
    from monitor.core.counts.estimates import Estimates
    from monitor.core.events import Event
    from monitor.core.streams import Identity, State
    from monitor.core.vocabulary import EventKind

JUDGE_SECONDS, LONG_SECONDS = 300.0, 3600.0
"""The two windows; windows of one length do not overlap from look to look."""
IN_A_ROW = 3
"""Short windows that prove it: one alone is a few requests."""
LEAST_DRAFTS = 500.0
"""Drafts in a window that is judged: fewer are a few requests, whatever their interval says."""
KIND: EventKind = "below_reference"
PINNED = "pinned in the settings: MAL"

PinnedOutcome = Literal["reached", "below", "unproven"]


@dataclass(frozen=True, slots=True)
class Pinned:
    """What is expected of a model: its MAL, and `marginal` acceptance of each position where it is told.

    `tolerance` is the share of MAL - 1 that may be missing, `source` where the number is from. Of drafts of
    `num_speculative_tokens` only, 0: of any.
    """

    mal: float
    tolerance: float
    source: str = ""
    marginal: tuple[float, ...] = ()
    num_speculative_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Held:
    """Acceptance beside what is pinned, over the positions that both have; `least` is still tolerated."""

    expected: float
    least: float
    measured: Level

    @property
    def outcome(self) -> PinnedOutcome:
        """Whether the whole interval lies above what is tolerated, or below it, or neither."""
        if self.measured.mal_high < self.least:
            return "below"
        return "reached" if self.measured.mal_low >= self.least else "unproven"


def of_stream(pinned: Mapping[str, Sequence[Pinned]], identity: Identity) -> Pinned | None:
    """Return what is pinned for a stream: for its model and k, else for its model, None where nothing is."""
    k = identity.num_speculative_tokens
    fitting = [
        each for each in pinned.get(identity.key.model_name, ()) if each.num_speculative_tokens in (0, k)
    ]
    return max(fitting, key=lambda each: each.num_speculative_tokens, default=None)


def held(pin: Pinned, state: State, row: int, window: int) -> Held | None:
    """Return how a stream stands over one window against what is pinned, None with too few drafts."""
    lengths = state.window_seconds
    began = float(state.watch["regime"]["began_at"][row])
    sums = windows.within(state.sums[row : row + 1], window, lengths[window], began, math.inf)
    made = estimates.from_sums(sums)
    if not made.drafts[0] >= LEAST_DRAFTS:
        return None
    told = made.marginal[0][np.isfinite(made.marginal[0])]
    both = min(len(told), len(pin.marginal))
    expected = sum(pin.marginal[:both]) if both else pin.mal - 1.0
    return Held(1.0 + expected, 1.0 + expected * (1.0 - pin.tolerance), _measured(made, told[:both]))


def _measured(made: Estimates, marginal: npt.NDArray[np.float64]) -> Level:
    """Return the level over some positions, over all where none are told; intervals in proportion."""
    kept = float(made.mal[0]) - 1.0
    measured = float(marginal.sum()) if len(marginal) else kept
    share = measured / kept if kept > 0.0 else 1.0
    low, high = (1.0 + (float(bound[0]) - 1.0) * share for bound in (made.mal_low, made.mal_high))
    conditional = made.conditional[0][: len(marginal) or None]
    rates = tuple(conditional[np.isfinite(conditional)].tolist())
    return Level(1.0 + measured, low, high, rates, float(made.drafts[0]))


def lately(pin: Pinned, state: State, row: int) -> Held | None:
    """Return how a stream stood in its last hour against what is pinned, None with too few drafts."""
    return held(pin, state, row, _window(state, LONG_SECONDS))


def sentence(pin: Pinned, found: Held | None) -> str:
    """Return in words what is pinned and how a stream stands against it."""
    source = f", from {pin.source}" if pin.source else ""
    if found is None:
        least = 1.0 + (pin.mal - 1.0) * (1.0 - pin.tolerance)
        return f"{PINNED} {pin.mal:.2f}, at least {least:.2f}{source}; too few drafts yet to tell"
    measured = found.measured
    how = {
        "below": "is below it",
        "reached": "reaches it",
        "unproven": "proves neither that it is reached nor that it is missed",
    }[found.outcome]
    return (
        f"{PINNED} {found.expected:.2f}, at least {found.least:.2f}{source}; "
        f"{measured.mal:.2f} [{measured.mal_low:.2f}, {measured.mal_high:.2f}] {how}"
    )


def judge(pinned: Mapping[str, Sequence[Pinned]], state: State, counts: Counts) -> list[Event]:
    """Return the events of streams that fall short of what is pinned, opened or closed by `counts`."""
    crossing = np.floor(counts.at / JUDGE_SECONDS) > np.floor((counts.at - counts.seconds) / JUDGE_SECONDS)
    found = []
    for index in np.flatnonzero(crossing).tolist():
        row, now = int(counts.rows[index]), float(counts.at[index])
        identity = state.identities[row]
        if identity.shortfall is None and identity.key.model_name not in pinned:
            continue
        hourly = now // LONG_SECONDS > (now - float(counts.seconds[index])) // LONG_SECONDS
        event = _judged(of_stream(pinned, identity), state, row, now, hourly=hourly)
        if event is not None:
            identity.shortfall = event if event.status == "open" else None
            found.append(event)
    return found


def _judged(pin: Pinned | None, state: State, row: int, now: float, *, hourly: bool) -> Event | None:
    """Return the event of one stream that opens or closes at a look, None where neither is proven."""
    identity = state.identities[row]
    if pin is None or not state.status["speculating"][row]:
        identity.short_windows = 0
        what = "nothing is pinned for what it runs now" if pin is None else "speculation was switched off"
        return events.closed(identity.shortfall, now, what) if identity.shortfall else None
    short = held(pin, state, row, _window(state, JUDGE_SECONDS))
    _count(identity, short)
    proofs = [short] if short is not None and abs(identity.short_windows) >= IN_A_ROW else []
    long = held(pin, state, row, _window(state, LONG_SECONDS)) if hourly else None
    proofs += [long] if long is not None else []
    for proof in proofs:
        if proof.outcome == "below" and identity.shortfall is None and not _told(state, row):
            return _opened(state, row, pin, proof, now)
        if proof.outcome == "reached" and identity.shortfall is not None:
            return events.closed(identity.shortfall, now, sentence(pin, proof))
    return None


def _window(state: State, seconds: float) -> int:
    """Return the number of the window whose length is nearest to `seconds`."""
    lengths = state.window_seconds
    return min(range(len(lengths)), key=lambda window: abs(lengths[window] - seconds))


def _count(identity: Identity, found: Held | None) -> None:
    """Count short windows in a row: below it (above 0) or reaching it (below 0), leaving out the unproven."""
    outcome = "unproven" if found is None else found.outcome
    if outcome == "below":
        identity.short_windows = max(identity.short_windows, 0) + 1
    elif outcome == "reached":
        identity.short_windows = min(identity.short_windows, 0) - 1


def _told(state: State, row: int) -> bool:
    """Return whether an open event tells already that acceptance fell, so that one fall is not told twice."""
    return any(DIRECTION_OF[event.kind] == "down" for event in fleet_events.of_stream(state, row))


def _opened(state: State, row: int, pin: Pinned, proof: Held, now: float) -> Event:
    identity = state.identities[row]
    began = float(state.watch["regime"]["began_at"][row]) or float(state.status["first_at"][row])
    since = max(began, now - IN_A_ROW * JUDGE_SECONDS)
    why = attribution.Attribution((sentence(pin, proof),), ())
    event = events.noted(identity.id, identity.key, KIND, now, why)
    expected = Level(proof.expected, math.nan, math.nan, (), 0.0)
    cost = events.cost(proof.expected, proof.measured.mal)
    event = replace(
        event,
        id=events.identity(identity.id, since, now, KIND),
        severity="warning",
        status="open",
        change_point_at=since,
        change_point_low=began,
        change_point_high=now,
        closed_at=None,
        before=expected,
        after=proof.measured,
        cost=cost,
        detector="reference",
        present_at=now,
        at_opening=events.Opening(proof.measured, cost, ()),
    )
    streams.count_change(state, row, event)
    return event
