"""Speculation that costs more than it gains: an event while decoding is slower than it would be without.

Every `JUDGE_SECONDS` of its data a stream that drafts is held against its plain step time (`worth`), over the
window of as long. Three windows in a row whose whole interval lies below 1, and below what nobody would
switch for (`payoff.EVEN`), are a net loss; three in a row that are not are its end. Windows do not overlap,
and one that proves nothing either way counts for neither. What is compared is speed, not acceptance: a stream
at its baseline may lose all day, and one that fell may still gain.

Replicas without speculation tell the plain step time as they stood at the end of an earlier span of
`JUDGE_SECONDS`, so that it does not matter which of two scrapes of one moment is read first.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from monitor.core import events, streams
from monitor.core.counts import estimates, windows
from monitor.core.detectors.base import Level
from monitor.core.economics import costs, fits, payoff
from monitor.core.events import Cost, attribution
from monitor.core.streams import losses, worth

if TYPE_CHECKING:
    import numpy.typing as npt

    from monitor.core.counts.deltas import Counts
    from monitor.core.counts.estimates import Estimates
    from monitor.core.economics.payoff import Payoff
    from monitor.core.events import Event
    from monitor.core.streams import Identity, State
    from monitor.core.streams.plans import Plan

    Rows = npt.NDArray[np.intp]

JUDGE_SECONDS = 300.0
"""From one look to the next, and the length of the window looked at: long requests end within it."""
IN_A_ROW = 3
"""Windows that open an event, and that close it: a quarter of an hour, as nothing breaks meanwhile."""
LEAST_DRAFTS = 500.0
"""Drafts in a window that is judged: fewer are a few requests, whatever their interval says."""
SWITCHED_OFF = "speculation was switched off"


def judge(plan: Plan, state: State, counts: Counts) -> list[Event]:
    """Return the events of net loss that the intervals `counts` open or close."""
    span = np.floor(counts.at / JUDGE_SECONDS)
    crossing = np.flatnonzero(span > np.floor((counts.at - counts.seconds) / JUDGE_SECONDS))
    if not len(crossing):
        return []
    rows, at = counts.rows[crossing], counts.at[crossing]
    speculating = state.status["speculating"][rows]
    found = _switched_off(state, rows[~speculating], at[~speculating])
    judged = rows[speculating]
    if len(judged):
        found += _judged(plan, state, judged, at[speculating])
    for row, number in zip(rows.tolist(), span[crossing].astype(int).tolist(), strict=True):
        _keep_plain(state, row, number)
    return found


def _keep_plain(state: State, row: int, span: int) -> None:
    """Keep what a stream without speculation has shown of plain steps by the beginning of a span."""
    identity = state.identities[row]
    sums = state.step_times["undrafted"][row]
    if not state.status["speculating"][row] and sums[0, 0] > 0.0:
        identity.plain = (*identity.plain[-1:], (span, tuple(sums.ravel().tolist())))
    elif identity.plain:
        identity.plain = (*identity.plain[-1:], (span, ()))


def _judged(plan: Plan, state: State, rows: Rows, times: npt.NDArray[np.float64]) -> list[Event]:
    lengths = state.window_seconds
    window = losses.present_window(lengths)
    sums = windows.over(state.sums[rows], window, lengths[window], times)
    made = estimates.from_sums(sums)
    beside = _beside(state, rows, times, made.batch_size)
    plain = worth.plain_steps(plan.told, state, rows, made.batch_size, made.coverage, beside)
    found: list[Event] = []
    for index, row in enumerate(rows.tolist()):
        if not made.drafts[index] >= LEAST_DRAFTS:
            continue
        verdict = worth.verdict(plain, made, index)
        identity = state.identities[row]
        _count(identity, verdict)
        moment = float(times[index])
        if identity.net_loss is None and identity.losing >= IN_A_ROW:
            identity.net_loss = _opened(plan, identity, made, index, verdict, moment, sums)
            found.append(identity.net_loss)
            streams.count_change(state, row, identity.net_loss)
        elif identity.net_loss is not None and identity.losing <= -IN_A_ROW:
            found.append(_closed(identity, moment, payoff.sentence(verdict)))
    return found


def _count(identity: Identity, verdict: Payoff) -> None:
    """Count windows in a row that cost (above 0) or do not (below); proving nothing is neither.

    A plain step time that is only fitted is an estimate: it is shown, and proves no loss.
    """
    if verdict.outcome == "costs" and verdict.origin != "fitted":
        identity.losing = max(identity.losing, 0) + 1
    elif verdict.outcome in ("pays", "even"):
        identity.losing = min(identity.losing, 0) - 1


def _opened(
    plan: Plan,
    identity: Identity,
    made: Estimates,
    index: int,
    verdict: Payoff,
    now: float,
    sums: windows.Sums,
) -> Event:
    sentence = payoff.sentence(verdict)
    why = attribution.Attribution((sentence,), ())
    event = events.noted(identity.id, identity.key, "net_loss", now, why)
    since = now - IN_A_ROW * JUDGE_SECONDS
    conditional = made.conditional[index]
    level = Level(
        float(made.mal[index]),
        float(made.mal_low[index]),
        float(made.mal_high[index]),
        tuple(conditional[np.isfinite(conditional)].tolist()),
        float(made.drafts[index]),
    )
    return replace(
        event,
        id=events.identity(identity.id, since, now, "net_loss"),
        severity="warning",
        status="open",
        change_point_at=since,
        change_point_low=since - JUDGE_SECONDS,
        change_point_high=since + JUDGE_SECONDS,
        closed_at=None,
        after=level,
        cost=_cost(plan, identity, verdict, sums, made, index),
        detector="payoff",
    )


def _cost(
    plan: Plan, identity: Identity, verdict: Payoff, sums: windows.Sums, made: Estimates, index: int
) -> Cost:
    """Return what the loss costs against plain decoding, which takes 1 ÷ speed-up of the time."""
    rate = float((losses.tokens_delivered(sums) / losses.spanned_seconds(sums))[index])
    busy = float(losses.busy_share(sums, made.step_seconds)[index])
    prices = worth.told_of(plan.told, identity.key.model_name).prices
    loss = costs.at_present(1.0 / verdict.speedup, rate, busy, prices)
    return Cost(
        tpot_ratio=1.0 / verdict.speedup,
        tokens_per_second_lost=loss.tokens_per_second,
        gpu_seconds_per_million_tokens=loss.gpu_seconds_per_million_tokens,
        gpu_hours_per_day=loss.gpu_hours_per_day,
        money_per_day=loss.money_per_day if math.isfinite(loss.money_per_day) else math.nan,
        busy_ratio=busy if math.isfinite(busy) else math.nan,
    )


def _closed(identity: Identity, now: float, fact: str) -> Event:
    event = identity.net_loss
    assert event is not None  # noqa: S101 - asked for by the callers
    identity.net_loss = None
    return events.closed(event, now, fact)


def _switched_off(state: State, rows: Rows, times: npt.NDArray[np.float64]) -> list[Event]:
    """Return the events that end because their streams do not speculate any more."""
    found = []
    for row, moment in zip(rows.tolist(), times.tolist(), strict=True):
        identity = state.identities[row]
        identity.losing = 0
        if identity.net_loss is not None:
            found.append(_closed(identity, moment, SWITCHED_OFF))
    return found


def _beside(
    state: State, rows: Rows, times: npt.NDArray[np.float64], batch_size: npt.NDArray[np.float64]
) -> fits.StepTime:
    """Return the plain step time of replicas that do not speculate, as it stood before this span."""
    pooled = np.zeros(len(rows), fits.DTYPE)
    shape = pooled["undrafted"].shape[1:]
    spans = np.floor(times / JUDGE_SECONDS).astype(int).tolist()
    kept: dict[tuple[str, str, int], npt.NDArray[np.float64]] = {}
    for index, (row, span) in enumerate(zip(rows.tolist(), spans, strict=True)):
        identity = state.identities[row]
        key = (identity.key.model_name, identity.hardware, span)
        if key not in kept:
            group = np.flatnonzero(state.groups.group_of_row == state.groups.group_of_row[row]).tolist()
            total = np.zeros(shape)
            for other in group:
                total += _stood(state.identities[other], identity.hardware, span, shape)
            kept[key] = total
        pooled["undrafted"][index] = kept[key]
    return fits.undrafted(pooled, batch_size)


def _stood(identity: Identity, hardware: str, span: int, shape: tuple[int, ...]) -> npt.NDArray[np.float64]:
    """Return what a stream had shown of plain steps before a span; zeros where it speculated then."""
    before = [sums for number, sums in identity.plain if number < span]
    if identity.hardware != hardware or not before or not before[-1]:
        return np.zeros(shape)
    return np.array(before[-1]).reshape(shape)
