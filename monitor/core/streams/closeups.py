"""All that is known of one stream at present, beside what was usual before: what its own page shows.

A change that is open parts the two: before it, and since. Without one the present is the window of a few
minutes in which costs are told too, and what was usual is the rest of the longest window.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from monitor.core import events
from monitor.core.counts import estimates, windows
from monitor.core.economics import accounting, fits
from monitor.core.events import event_records
from monitor.core.events.attribution import fingerprints
from monitor.core.pages.engines.base import NUM_COUNTERS, Counter
from monitor.core.streams import losses, pinned, summaries

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import numpy.typing as npt

    from monitor.core.counts.estimates import Estimates
    from monitor.core.counts.windows import Sums
    from monitor.core.economics.accounting import Sized
    from monitor.core.events import Event
    from monitor.core.streams import State
    from monitor.core.streams.plans import Plan

    Floats = npt.NDArray[np.float64]

Record = dict[str, object]

FIGURES = ("coverage", "tokens_per_step", "step_seconds", "batch_size")
"""What stands side by side, before and now, beside acceptance."""


@dataclass(frozen=True, slots=True)
class _Sides:
    """What was counted before and since (one row each), what was usual before, and what holds since."""

    before: Sums
    now: Sums
    usual: Sized
    made: Estimates


def of_row(plan: Plan, state: State, row: int, now: float, least_drafts: float) -> Record:
    """Return the close look at one stream at `now` (unix seconds), unknown numbers None.

    `parted_at` is since when the present is, `change_open` whether a change parts it from what was before.
    `counters` are of the window that its estimate is made from (`summaries.over_shortest`).
    """
    identity = state.identities[row]
    parted_at, sides = _parted(state, row, now)
    shares = accounting.at_row(fits.accounted(state.step_times[[row]], sides.usual, sides.made), 0)
    window = summaries.shortest(plan, state.sums[[row]], np.array([now]), least_drafts)
    return {
        "parted_at": events.number(parted_at),
        "change_open": identity.outset is not None,
        "before_seconds": events.number(sides.before.vectors[0, windows.SECONDS]),
        "before": _level(identity.event, "before", sides.before, sides.usual) | _figures(sides.usual),
        "now": _level(identity.event, "after", sides.now, sides.made) | _figures(sides.made),
        "tpot_log_shares": {name: events.number(share) for name, share in shares.items()},
        "tpot_sentence": accounting.sentence(shares),
        "pinned": _pinned(plan, state, row),
        "traffic": _traffic(sides),
        "counters": _counters(state, row, window),
        "quality": _quality(state, row),
    }


def _parted(state: State, row: int, now: float) -> tuple[float, _Sides]:
    outset = state.identities[row].outset
    table, lengths = state.sums[[row]], state.window_seconds
    present = losses.present_window(lengths)
    longest = max(range(len(lengths)), key=lengths.__getitem__)
    at = now - lengths[present] if outset is None else outset.at
    before = windows.within(table, longest, lengths[longest], -math.inf, at)
    since = windows.within(table, present, lengths[present], at, math.inf)
    usual = estimates.from_sums(before) if outset is None else losses.usual([outset])
    return at, _Sides(before, since, usual, estimates.from_sums(since))


def _pinned(plan: Plan, state: State, row: int) -> Record | None:
    """Return what the operator pinned and how the last hour stands against it, None where nothing is."""
    pin = pinned.of_stream(plan.pinned, state.identities[row])
    if pin is None:
        return None
    found = pinned.lately(pin, state, row)
    return {
        "mal": pin.mal,
        "marginal": list(pin.marginal),
        "tolerance": pin.tolerance,
        "source": pin.source,
        "outcome": "unproven" if found is None else found.outcome,
        "sentence": pinned.sentence(pin, found),
    }


def _figures(side: Sized) -> Record:
    return {name: events.number(getattr(side, name)[0]) for name in FIGURES}


def _level(event: Event | None, side: str, counted: Sums, measured: Sized) -> Record:
    """Return the acceptance of a side: what the stream's own open event says, else what was counted."""
    told = None if event is None else event.before if side == "before" else event.after
    if told is not None and told.drafts > 0:
        return event_records.level_as_json(told)
    made = estimates.from_sums(counted)
    positions = int(np.isfinite(made.accepted[0]).sum())
    return {
        "mal": events.number(measured.mal[0]),
        "mal_low": events.number(made.mal_low[0]),
        "mal_high": events.number(made.mal_high[0]),
        "conditional": [events.number(value) for value in made.conditional[0, :positions]],
        "drafts": summaries.count(made.drafts[0]),
    }


def _traffic(sides: _Sides) -> list[Record]:
    """Return what requests were like on both sides; `moved` is empty where that is not judged."""
    both = sides.before, sides.now
    lengths = [
        _figure(move.name, move.unit, (move.first, move.second), move.value)
        for move in fingerprints.between(*both)
    ]
    hits, rates = map(fingerprints.cache_hits, both), map(_finished_per_second, both)
    return [
        *lengths,
        _figure("prefix cache hit ratio", "", hits),
        _figure("finished requests", "per second", rates),
    ]


def _figure(name: str, unit: str, sides: Iterable[float], moved: str = "") -> Record:
    before, now = map(events.number, sides)
    return {"name": name, "unit": unit, "before": before, "now": now, "moved": moved}


def _finished_per_second(sums: Sums) -> float:
    known = sums.known[0, Counter.FINISHED_REQUESTS]
    finished = float(sums.vectors[0, windows.COUNTERS][Counter.FINISHED_REQUESTS])
    return finished / float(losses.spanned_seconds(sums)[0]) if known else math.nan


def _counters(state: State, row: int, window: Sums) -> Record:
    """Return the canonical counters that pages have: on the last page, and how far they moved."""
    known = [counter for counter in Counter if window.known[0, counter]]
    moved, page = window.vectors[0], state.ledger["growing"][row]
    positions = int(window.positions[0])
    return {
        "window_seconds": events.number(moved[windows.SECONDS]),
        "read_at": events.number(state.ledger["at"][row]),
        "moved": _by_name(known, moved[windows.COUNTERS]),
        "on_page": _by_name(known, page),
        "accepted_moved": _counts(moved[windows.POSITIONS][:positions]),
        "accepted_on_page": _counts(page[NUM_COUNTERS:][:positions]),
    }


def _by_name(known: Sequence[Counter], values: Floats) -> Record:
    return {counter.name.lower(): summaries.count(float(values[counter])) for counter in known}


def _counts(values: Floats) -> list[int | float | None]:
    return [summaries.count(value) for value in values.tolist()]


def _quality(state: State, row: int) -> Record:
    """Return what was wrong with the stream's pages so far, and the last contradiction in words."""
    identity = state.identities[row]
    target = state.targets[identity.key.target]
    return {
        "violations": summaries.violations(state, row),
        "contradiction": identity.contradiction,
        "doubted": identity.doubt is not None,
        "scrapes_read": target.scrapes - sum(target.failures.values()),
        "scrapes_refused": dict(sorted(target.failures.items())),
        "restarts": int(state.ledger["restarts"][row]),
    }
