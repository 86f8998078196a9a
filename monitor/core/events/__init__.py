"""Alarms -> one record that a person reads once, with what it cost and what else changed."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from monitor.core.detectors import base
from monitor.core.detectors.base import Level
from monitor.core.economics.verdicts import ReleaseVerdict
from monitor.core.vocabulary import TROUBLES

if TYPE_CHECKING:
    from monitor.core.detectors.base import Alarm
    from monitor.core.events.attribution import Attribution, Cause
    from monitor.core.fleet import FleetAlarm
    from monitor.core.pages.scrapes import StreamKey
    from monitor.core.vocabulary import EventKind, Severity

COSTLY: frozenset[EventKind] = frozenset(TROUBLES)
"""Kinds of events that have a cost: those that say how well speculation does, and how fast."""
CONFIDENCE_QUANTILE = 1.96  # 95 %, two sides
WORTH_SAYING = 0.02  # of the benefit before the change
UNKNOWN_LEVEL = Level(math.nan, math.nan, math.nan, (), 0.0)


@dataclass(frozen=True, slots=True)
class Cost:
    """What a change costs: ratios after ÷ before, NaN where unknown; 1 is no cost.

    Losses are against what the same GPU time delivered before: at present (tokens per second, GPU-seconds per
    million tokens, GPU-hours and money a day) and since the change (`tokens_lost`, `gpu_hours`, `money`);
    negative where it is a gain. `busy_ratio` is the share of the time spent decoding, NaN where the page does
    not tell: GPU time and money are upper bounds then. `tpot_log_shares` are (name, share of ln tpot_ratio).
    """

    tokens_per_step_ratio: float = math.nan
    tpot_ratio: float = math.nan
    benefit_lost_ratio: float = math.nan
    tokens_per_second_lost: float = math.nan
    gpu_seconds_per_million_tokens: float = math.nan
    gpu_hours_per_day: float = math.nan
    money_per_day: float = math.nan
    tokens_lost: float = math.nan
    gpu_hours: float = math.nan
    money: float = math.nan
    busy_ratio: float = math.nan
    tpot_log_shares: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True, slots=True)
class Opening:
    """What was known of a change when it was first told; it stays as it was."""

    after: Level
    cost: Cost
    causes: tuple[Cause, ...]


@dataclass(frozen=True, slots=True)
class Past:
    """What was usual before a change, which the sums forget after an hour: NaN where unknown."""

    tokens_per_step: float = math.nan
    tpot_seconds: float = math.nan


NO_PAST = Past()


@dataclass(frozen=True, slots=True)
class Event:
    """One change of one stream, or of a fleet, from the alarm that opened it to the proof that it is over.

    `after`, `cost` and `causes` are those of the present while the event is open, measured at `present_at`
    (unix seconds of the data); once it is closed, the last of them. `at_opening` is what was told first.
    """

    id: str
    stream: str | None
    key: StreamKey | None
    kind: EventKind
    severity: Severity
    status: Literal["open", "closed"]
    change_point_at: float
    change_point_low: float
    change_point_high: float
    raised_at: float
    closed_at: float | None
    before: Level
    after: Level
    cost: Cost
    positions: tuple[int, ...]
    causes: tuple[Cause, ...]
    facts: tuple[str, ...]
    detector: str
    scope: Literal["replica", "fleet"] = "replica"
    model_name: str = ""
    streams: tuple[str, ...] = ()
    updates: int = 0
    present_at: float = math.nan
    at_opening: Opening | None = None
    past: Past = NO_PAST
    verdict: ReleaseVerdict | None = None


def opened(
    stream: str,
    key: StreamKey,
    alarm: Alarm,
    cost: Cost,
    attribution: Attribution,
    past: Past = NO_PAST,
) -> Event:
    """Return the event of an alarm that opens; one that is only a note is closed as it opens."""
    return Event(
        id=identity(stream, alarm.change_point_at, alarm.raised_at, alarm.kind),
        stream=stream,
        key=key,
        kind=alarm.kind,
        severity=alarm.severity,
        status="closed" if alarm.action == "note" else "open",
        change_point_at=alarm.change_point_at,
        change_point_low=alarm.change_point_low,
        change_point_high=alarm.change_point_high,
        raised_at=alarm.raised_at,
        closed_at=alarm.raised_at if alarm.action == "note" else None,
        before=alarm.before,
        after=alarm.after,
        cost=cost,
        positions=alarm.positions,
        causes=attribution.causes,
        facts=attribution.facts,
        detector=alarm.detector,
        model_name=key.model_name,
        present_at=alarm.raised_at,
        at_opening=Opening(alarm.after, cost, attribution.causes),
        past=past,
    )


def of_fleet(
    model_name: str, streams: tuple[str, ...], alarm: FleetAlarm, cost: Cost, attribution: Attribution
) -> Event:
    """Return the event of an alarm that opens about all streams of a model."""
    return Event(
        id=identity(f"fleet|{model_name}", alarm.change_point_at, alarm.raised_at, alarm.kind),
        stream=None,
        key=None,
        kind=alarm.kind,
        severity=alarm.severity,
        status="open",
        change_point_at=alarm.change_point_at,
        change_point_low=alarm.change_point_low,
        change_point_high=alarm.change_point_high,
        raised_at=alarm.raised_at,
        closed_at=None,
        before=alarm.before,
        after=alarm.after,
        cost=cost,
        positions=alarm.positions,
        causes=attribution.causes,
        facts=attribution.facts,
        detector="fleet",
        scope="fleet",
        model_name=model_name,
        streams=streams,
        present_at=alarm.raised_at,
        at_opening=Opening(alarm.after, cost, attribution.causes),
    )


def noted(stream: str, key: StreamKey, kind: EventKind, now: float, attribution: Attribution) -> Event:
    """Return an event that only informs: opened and closed at `now`, without acceptance on either side."""
    return Event(
        id=identity(stream, now, now, kind),
        stream=stream,
        key=key,
        kind=kind,
        severity="info",
        status="closed",
        change_point_at=now,
        change_point_low=now,
        change_point_high=now,
        raised_at=now,
        closed_at=now,
        before=UNKNOWN_LEVEL,
        after=UNKNOWN_LEVEL,
        cost=Cost(),
        positions=(),
        causes=attribution.causes,
        facts=attribution.facts,
        detector="page",
        model_name=key.model_name,
    )


def doubted(
    stream: str, key: StreamKey, span: tuple[float, float, float], now: float, attribution: Attribution
) -> Event:
    """Return the open event that a stream's counters contradict each other; it says nothing of acceptance.

    `span` is since when, at the earliest and at the latest; `now` when it was seen (unix seconds).
    """
    event = noted(stream, key, "data_quality", now, attribution)
    since, earliest, latest = span
    return replace(
        event,
        id=identity(stream, since, now, event.kind),
        severity="warning",
        status="open",
        change_point_at=since,
        change_point_low=earliest,
        change_point_high=latest,
        closed_at=None,
    )


def updated(event: Event, alarm: Alarm, cost: Cost, attribution: Attribution) -> Event:
    """Return the event as it stands after an alarm about the same trouble grew."""
    return replace(
        event,
        updates=event.updates + 1,
        kind=alarm.kind,
        severity=alarm.severity,
        after=alarm.after,
        cost=cost,
        positions=alarm.positions,
        causes=attribution.causes,
        facts=attribution.facts,
        detector=alarm.detector,
        present_at=alarm.raised_at,
    )


def present(event: Event, now: float, after: Level, cost: Cost, causes: tuple[Cause, ...]) -> Event:
    """Return an open event with what its change is like `now` (unix seconds of the data)."""
    return replace(event, present_at=now, after=after, cost=cost, causes=causes, updates=event.updates + 1)


def moved(event: Event, after: Level) -> bool:
    """Return whether acceptance is by now elsewhere than the event says, by more than chance."""
    told = event.after
    if not math.isfinite(after.mal):
        return False
    if not math.isfinite(told.mal):
        return True
    apart = abs(after.mal - told.mal)
    chance = (after.mal_high - after.mal_low) / 2.0
    benefit = event.before.mal - 1.0
    worth = WORTH_SAYING * (benefit if benefit > 0.0 else 1.0)
    return apart > (max(chance, worth) if math.isfinite(chance) else worth)


def closed(event: Event, now: float, fact: str = "") -> Event:
    """Return the event closed at `now` (unix seconds), with what there is to say of its end."""
    facts = (*event.facts, fact) if fact else event.facts
    return replace(event, status="closed", closed_at=now, facts=facts)


def identity(stream: str, change_point_at: float, raised_at: float, kind: str) -> str:
    """Return an id that the same change of the same stream always gets."""
    text = f"{stream}|{change_point_at:.3f}|{raised_at:.3f}|{kind}"
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def cost(before: float, after: float, tokens: float = math.nan, tpot: float = math.nan) -> Cost:
    """Return what it costs that acceptance went from one MAL to another.

    tokens, tpot: how tokens per step and time per token went, after ÷ before; where they are not known the
    MALs stand for them.
    """
    if not math.isfinite(tokens):
        tokens = after / before if before > 0.0 else math.nan
    if not math.isfinite(tpot):
        tpot = 1.0 / tokens if tokens > 0.0 else math.nan
    return Cost(tokens, tpot, benefit_lost(before, after))


def benefit_lost(before: float, after: float) -> float:
    """Return the share of speculation's benefit that is gone, (before − after) ÷ (before − 1)."""
    return (before - after) / (before - 1.0) if before > 1.0 else math.nan


def verdict(before: Level, after: Level) -> ReleaseVerdict | None:
    """Return how two levels compare over the positions that both have, None where one is unknown.

    Each level's interval is taken for 95 % of a normal distribution; a difference that is surer than 95 % is
    one. `confidence` is that of the difference, whatever the outcome.
    """
    before, after = base.comparable(before, after)
    spread = math.hypot(before.mal_high - before.mal_low, after.mal_high - after.mal_low)
    difference = after.mal - before.mal
    if not math.isfinite(spread) or not math.isfinite(difference) or spread <= 0:
        return None
    standard_errors = 2.0 * CONFIDENCE_QUANTILE * difference / spread
    confidence = math.erf(abs(standard_errors) / math.sqrt(2.0))
    if abs(standard_errors) < CONFIDENCE_QUANTILE:
        return ReleaseVerdict("no_difference", confidence)
    return ReleaseVerdict("better" if difference > 0 else "worse", confidence)


def word(event: Event) -> ReleaseVerdict | None:
    """Return what a release or a new regime did to acceptance, None where nothing was compared."""
    if event.verdict is not None or event.kind != "regime_change":
        return event.verdict
    return verdict(event.before, event.after)


def number(value: float) -> float | None:
    """Return a number for JSON: None where it is not finite, rounded to what a reader can use."""
    return round(float(value), 6) if math.isfinite(value) else None
