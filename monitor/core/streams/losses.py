"""What open changes cost, now and so far: from what was usual before each and what was counted since.

When a change opens, its stream keeps an `Outset`: how fast it was, and what had been counted up to the
change. Everything else follows from that at any later time, so nothing is added up scrape by scrape, and a
restart of specmon loses nothing. A change of a whole model costs what it costs each of its streams.

What the event of a model says is measured up to the moment at which it was raised, looked at or closed:
scrapes of other replicas that came with the same batch change nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from monitor.core import events, streams
from monitor.core.counts import estimates, windows
from monitor.core.economics import accounting, costs, fits
from monitor.core.pages.engines.base import Counter
from monitor.core.streams import worth
from monitor.core.streams.outsets import Outset

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy.typing as npt

    from monitor.core.counts.windows import Sums
    from monitor.core.economics.costs import Loss, Spent
    from monitor.core.events import Cost, Event
    from monitor.core.streams import State
    from monitor.core.streams.plans import Plan

    Floats = npt.NDArray[np.float64]
    Rows = npt.NDArray[np.intp]

LEAST_SECONDS = 300.0
"""Length of the window that is the present: of a minute a few long requests are half."""
COUNTED = slice(0, windows.COUNTERS.stop)


@dataclass(frozen=True, slots=True)
class Losses:
    """What the open changes of N streams cost: now, so far, and the log shares of TPOT by name, [N] each.

    `delivered` are tokens per second now, `busy` the share of the time spent decoding (NaN: not told).
    """

    now: tuple[Loss, ...]
    so_far: tuple[Spent, ...]
    delivered: Floats
    busy: Floats
    shares: Mapping[str, Floats]


def stamped(plan: Plan, state: State, news: Sequence[Event]) -> list[Event]:
    """Return the events with what each costs; what is held open says the same from now on."""
    return [_stamped(plan, state, event) for event in news]


def _stamped(plan: Plan, state: State, event: Event) -> Event:
    rows = np.array(streams.rows_of(state, event), np.intp)
    if event.kind not in events.COSTLY or not len(rows):
        return event
    fleet = event.scope == "fleet"
    if event.status == "open":
        _begin(state, rows, event.change_point_at)
    until = math.inf
    if fleet:
        until = event.present_at if event.closed_at is None else event.closed_at
    rows = np.array([row for row in rows.tolist() if state.identities[row].outset is not None], np.intp)
    if not len(rows):
        return event
    found = of_rows(plan, state, rows, until)
    made = replace(event, cost=joined(event.cost, found, shared=fleet))
    if event.status == "closed":
        _end(state, event, rows)
        return made
    if made.updates == 0 and made.at_opening is not None:
        made = replace(made, at_opening=replace(made.at_opening, cost=made.cost))
    if fleet:
        group = int(state.groups.group_of_row[rows[0]])
        if group in state.groups.open and state.groups.open[group].id == made.id:
            state.groups.open[group] = made
    elif state.identities[int(rows[0])].event is not None:
        state.identities[int(rows[0])].event = made
    return made


def _begin(state: State, rows: Rows, change_at: float) -> None:
    """Keep with each row that has none what was usual before the change and what was counted up to it."""
    fresh = np.array([row for row in rows.tolist() if state.identities[row].outset is None], np.intp)
    if not len(fresh):
        return
    table, lengths = state.sums[fresh], state.window_seconds
    longest = max(range(len(lengths)), key=lengths.__getitem__)
    present = present_window(lengths)
    before = _either(
        *(
            windows.within(table, window, lengths[window], -math.inf, change_at)
            for window in (longest, present)
        )
    )
    made = estimates.from_sums(before)
    finest = table["slot"][:, present] - change_at // (lengths[present] / windows.SLOTS) < windows.SLOTS
    fine, coarse = (_later(table, window, lengths[window], change_at) for window in (present, longest))
    counted = windows.total(table).vectors[:, COUNTED] - np.where(finest[:, None], fine, coarse)
    for index, row in enumerate(fresh.tolist()):
        state.identities[row].outset = Outset(
            at=change_at,
            counted=tuple(counted[index].tolist()),
            mal=float(made.mal[index]),
            coverage=float(made.coverage[index]),
            tokens_per_step=float(made.tokens_per_step[index]),
            step_seconds=float(made.step_seconds[index]),
            batch_size=float(made.batch_size[index]),
        )


def _later(table: npt.NDArray[np.void], window: int, length: float, change_at: float) -> Floats:
    """Return what a ring's slots hold of the time after a change; that of the change in part."""
    slot = length / windows.SLOTS
    part = 1.0 - change_at / slot % 1.0
    held = windows.within(table, window, length, change_at - slot, change_at + slot).vectors[:, COUNTED]
    return windows.within(table, window, length, change_at, math.inf).vectors[:, COUNTED] + part * held


def _either(first: Sums, second: Sums) -> Sums:
    """Return the first sums, the second in the rows in which the first are empty."""
    empty = first.vectors[:, windows.SECONDS] <= 0.0
    return replace(first, vectors=np.where(empty[:, None], second.vectors, first.vectors))


def _end(state: State, event: Event, rows: Rows) -> None:
    """Forget the outsets of a change that is over, but for streams that are still part of another one."""
    for row in rows.tolist():
        identity = state.identities[row]
        shared = state.groups.open.get(int(state.groups.group_of_row[row]))
        held = shared is not None and shared.id != event.id and identity.id in shared.streams
        if identity.event is None and not held:  # a target that left keeps its event: it may come back
            identity.outset = None


def present_window(lengths: tuple[float, ...]) -> int:
    """Return which window is the present: the shortest of `LEAST_SECONDS` and more, else the longest."""
    long_enough = [window for window, length in enumerate(lengths) if length >= LEAST_SECONDS]
    return min(long_enough or range(len(lengths)), key=lengths.__getitem__)


def open_rows(state: State, rows: Rows) -> Rows:
    """Return which of `rows` have a change open whose cost is followed."""
    return np.array([row for row in rows.tolist() if state.identities[row].outset is not None], np.intp)


def usual(held: Sequence[Outset]) -> costs.Usual:
    """Return what was usual before each of these changes."""
    columns = costs.Usual.__slots__
    return costs.Usual(*(np.array([getattr(each, name) for each in held], float) for name in columns))


def of_rows(plan: Plan, state: State, rows: Rows, until: float = math.inf) -> Losses:
    """Return what the open changes of `rows` cost, counting what came before `until` (unix seconds).

    Every one of `rows` must have an outset (`open_rows`).
    """
    held = [outset for outset in (state.identities[row].outset for row in rows.tolist()) if outset]
    before = usual(held)
    table, lengths = state.sums[rows], state.window_seconds
    window = present_window(lengths)
    begun = np.array([each.at for each in held], float)
    now_sums = windows.within(table, window, lengths[window], begun, until)
    slot = lengths[window] / windows.SLOTS
    too_late = windows.within(table, window, lengths[window], until - slot, math.inf)
    since_sums = _since(table, held, too_late)
    now, since = estimates.from_sums(now_sums), estimates.from_sums(since_sums)
    delivered = tokens_delivered(now_sums) / spanned_seconds(now_sums)
    busy = busy_share(now_sums, now.step_seconds)
    prices = [worth.told_of(plan.told, state.identities[row].key.model_name).prices for row in rows.tolist()]
    slower = costs.slowdown(before, now)
    overall = costs.slowdown(before, since)
    tokens, seconds = tokens_delivered(since_sums), spanned_seconds(since_sums)
    worked = seconds * np.nan_to_num(busy_share(since_sums, since.step_seconds), nan=1.0)
    return Losses(
        now=tuple(
            costs.at_present(float(slower[n]), float(delivered[n]), float(busy[n]), price)
            for n, price in enumerate(prices)
        ),
        so_far=tuple(
            costs.over(float(overall[n]), float(tokens[n]), float(worked[n]), price)
            for n, price in enumerate(prices)
        ),
        delivered=delivered,
        busy=busy,
        shares=_shares(state, rows, before, now),
    )


def _since(table: npt.NDArray[np.void], held: Sequence[Outset], too_late: Sums) -> Sums:
    """Return what was counted since each change, but for what came `too_late`."""
    total = windows.total(table)
    vectors = np.zeros_like(total.vectors)
    counted = np.array([each.counted for each in held], float)
    vectors[:, COUNTED] = np.maximum(total.vectors[:, COUNTED] - counted - too_late.vectors[:, COUNTED], 0.0)
    return replace(total, vectors=vectors, positions=np.zeros_like(total.positions))


def spanned_seconds(sums: Sums) -> Floats:
    """Return how long the sums cover [N] seconds, NaN where they are empty."""
    seconds = sums.vectors[:, windows.SECONDS]
    return np.where(seconds > 0.0, seconds, np.nan)


def tokens_delivered(sums: Sums) -> Floats:
    """Return the tokens delivered [N]: those counted, else those that drafts and their bonus tokens make."""
    values = np.where(sums.known, sums.vectors[:, windows.COUNTERS], np.nan)
    drafted = values[:, Counter.DRAFTS] + values[:, Counter.ACCEPTED_TOKENS]
    return np.where(
        np.isnan(values[:, Counter.GENERATION_TOKENS]), drafted, values[:, Counter.GENERATION_TOKENS]
    )


def busy_share(sums: Sums, step_seconds: Floats) -> Floats:
    """Return the share of the time in which the engine stepped [N], NaN where the page does not tell."""
    values = np.where(sums.known, sums.vectors[:, windows.COUNTERS], np.nan)
    with np.errstate(invalid="ignore"):
        share = values[:, Counter.ENGINE_STEPS] * step_seconds / spanned_seconds(sums)
    return np.minimum(share, 1.0)


def _shares(state: State, rows: Rows, before: costs.Usual, now: estimates.Estimates) -> dict[str, Floats]:
    """Return the log shares of each row's change of TPOT, that of the batch by the stream's own history."""
    found = fits.accounted(state.step_times[rows], before, now)
    return {name: getattr(found, name) for name in ("total", *accounting.NAMES)}


def joined(cost: Cost, parts: Losses, *, shared: bool) -> Cost:
    """Return the cost of an event with what its streams lose together; `shared`: it is one of a model.

    The accounting of TPOT is that of one stream: shares of several do not add up to those of their mean.
    """
    now = costs.total(parts.now, parts.delivered.tolist())
    so_far = costs.total_spent(parts.so_far)
    busy = parts.busy[np.isfinite(parts.busy)]
    return replace(
        cost,
        tokens_per_second_lost=_known(now.tokens_per_second),
        gpu_seconds_per_million_tokens=_known(now.gpu_seconds_per_million_tokens),
        gpu_hours_per_day=_known(now.gpu_hours_per_day),
        money_per_day=_known(now.money_per_day),
        tokens_lost=_known(so_far.tokens),
        gpu_hours=_known(so_far.gpu_hours),
        money=_known(so_far.money),
        busy_ratio=float(busy.mean()) if len(busy) else math.nan,
        tpot_log_shares=()
        if shared
        else tuple((name, _known(values[0])) for name, values in parts.shares.items()),
    )


def _known(number: float) -> float:
    """Return the number; what is not known is one and the same object, so that equal costs are equal."""
    return float(number) if math.isfinite(number) else math.nan
