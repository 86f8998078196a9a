"""The only composer: scrapes -> readings -> counts -> findings -> events, for one stream or thousands.

The live service, a replay and a test all call `step`. It takes the scrapes of a tick in any grouping; the
events do not depend on the grouping, because no stage lets one row of the arrays influence another.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from monitor import attribution, deltas, detectors, estimates, events, pages, quality, streams, table, windows
from monitor.attribution import Mark
from monitor.engines import iterations
from monitor.engines.base import Counter
from monitor.events import Cost, Event, StreamKey
from monitor.scrapes import Failure
from monitor.streams import MOST_POSITIONS, Identity, Limits, State, TargetState

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import numpy.typing as npt

    from monitor.detectors import Alarm, Findings
    from monitor.engines.base import Reading
    from monitor.scrapes import Scrape

REGIME_MARKS: dict[str, attribution.MarkKind] = {
    "draft_model": "draft_model",
    "target_model": "target_model",
    "method": "method",
}


@dataclass(frozen=True, slots=True)
class Declared:
    """What the operator or discovery says of a target that its page cannot say; empty where nothing is said.

    `facts` are not part of the regime; a change of one of them, such as the image, is a mark.
    """

    engine: str = ""
    model_name: str = ""
    draft_model: str = ""
    method: str = ""
    num_speculative_tokens: int = 0
    labels: tuple[tuple[str, str], ...] = ()
    facts: tuple[tuple[str, str], ...] = ()


NOTHING_DECLARED = Declared()


@dataclass(frozen=True, slots=True)
class Plan:
    """All that a step needs to know besides the scrapes; `windows` in seconds, shortest first.

    `plain_step_seconds` is the engine's step time without speculation, NaN where nobody measured it.
    """

    detection: detectors.Plan = field(default_factory=detectors.Plan)
    limits: Limits = field(default_factory=Limits)
    windows: tuple[float, ...] = (60.0, 300.0, 3600.0)
    declared: Mapping[str, Declared] = field(default_factory=dict)
    plain_step_seconds: float = math.nan


@dataclass(frozen=True, slots=True)
class Observation:
    """What was seen of the streams that had news in one round: their counts and what the detectors said."""

    counts: deltas.Counts
    findings: Findings


@dataclass(frozen=True, slots=True)
class Step:
    """The state after a step, what was observed in it, and the events that opened, grew or closed."""

    state: State
    observations: tuple[Observation, ...]
    events: tuple[Event, ...]


@dataclass(frozen=True, slots=True)
class _News:
    """A reading with the row it belongs to and when its target's page was last read."""

    row: int
    at: float
    since: float
    reading: Reading


def begin(plan: Plan) -> State:
    """Return the state before the first scrape."""
    return State(plan.detection, plan.windows)


def step(plan: Plan, state: State, scrapes: Sequence[Scrape]) -> Step:
    """Return what `scrapes` show; `state` is advanced in place and is part of the result."""
    observations: list[Observation] = []
    found: list[Event] = []
    for batch in _rounds(scrapes):
        news = _read(plan, state, batch)
        if news:
            observation, raised = _judge(plan, state, news)
            if observation is not None:
                observations.append(observation)
            found += raised
    return Step(state, tuple(observations), tuple(found))


def _rounds(scrapes: Sequence[Scrape]) -> Iterator[Sequence[Scrape]]:
    """Yield groups in which no target stands twice, in the order given."""
    batch: list[Scrape] = []
    targets: set[str] = set()
    for scrape in scrapes:
        if scrape.target in targets:
            yield batch
            batch, targets = [], set()
        batch.append(scrape)
        targets.add(scrape.target)
    if batch:
        yield batch


def _read(plan: Plan, state: State, batch: Sequence[Scrape]) -> list[_News]:
    """Return the readings of a round, each with its stream's row; streams that are new get one."""
    found: list[tuple[StreamKey, float, float, Reading]] = []
    for scrape in batch:
        target = state.targets.setdefault(scrape.target, TargetState())
        since = target.good_at if scrape.readings is None and target.good_at <= scrape.at else math.nan
        declared = plan.declared.get(scrape.target, NOTHING_DECLARED)
        for reading in _look(declared, target, scrape):
            told = _as_declared(reading, declared)
            key = StreamKey(scrape.target, told.model_name, told.replica)
            found.append((key, scrape.at, since, told))
    fresh = [key for key in dict.fromkeys(key for key, _, _, _ in found) if key not in state.rows]
    if fresh:
        state.add(fresh)
    return [_News(state.rows[key], at, since, reading) for key, at, since, reading in found]


def _as_declared(reading: Reading, declared: Declared) -> Reading:
    """Return the reading with the operator's model and k where the page has none: drafts may follow from k."""
    tokens = reading.num_speculative_tokens or declared.num_speculative_tokens
    name = reading.model_name or declared.model_name
    if (tokens, name) == (reading.num_speculative_tokens, reading.model_name):
        return reading
    return replace(reading, num_speculative_tokens=tokens, model_name=name)


def _look(declared: Declared, target: TargetState, scrape: Scrape) -> tuple[Reading, ...]:
    """Return the readings of one scrape and note with the target how it went."""
    target.scrapes += 1
    target.last_at = scrape.at
    target.duration = scrape.duration
    look = pages.Look(failure=scrape.failure)
    if scrape.readings is not None:
        look = pages.Look(scrape.readings)
    elif scrape.body is not None and declared.engine == iterations.NAME:
        look = pages.read_iterations(target.memory, scrape.body, scrape.beside, scrape.at, declared.model_name)
    elif scrape.body is not None:
        look = pages.read(target.memory, scrape.body, scrape.beside, declared.engine)
    elif scrape.failure is None:
        look = pages.Look(failure=Failure("empty", "the scrape holds neither a page nor counters"))
    target.failure = look.failure
    if look.failure is not None:
        target.failures[look.failure.reason] = target.failures.get(look.failure.reason, 0) + 1
    else:
        target.good_at = scrape.at if math.isnan(target.good_at) else max(target.good_at, scrape.at)
    for check, count in (("unreadable_line", len(look.problems)), ("duplicate_series", look.duplicates)):
        if count:
            target.problems[check] = target.problems.get(check, 0) + count
    return look.readings


def _recognise(
    plan: Plan, state: State, news: Sequence[_News], believed: npt.NDArray[np.bool_]
) -> tuple[npt.NDArray[np.bool_], list[Event]]:
    """Return which readings belong to a new regime, and the events of speculation switched off.

    Pages that are not believed (late, torn, of a process on its way out) say nothing of the configuration.
    """
    changed = np.zeros(len(news), bool)
    switched = []
    for index in np.flatnonzero(believed).tolist():
        row, at, reading = news[index].row, news[index].at, news[index].reading
        identity = state.identities[row]
        target = identity.key.target
        changed[index] = _identify(plan.declared.get(target), identity, reading, at)
        if identity.engine == "":
            memory = state.targets[target].memory
            identity.engine = memory.schema.engine.name if memory.schema else "counters"
        drafted = not math.isnan(state.status["drafts_at"][row])
        if drafted and state.status["speculating"][row] and not reading.speculating:
            switched.append(_switched_off(state, row, at))
    return changed, switched


def _identify(declared: Declared | None, identity: Identity, reading: Reading, at: float) -> bool:
    """Return whether the reading belongs to another regime than the last one; marks what changed."""
    seen = (reading.num_speculative_tokens, reading.engine_version, reading.config, reading.facts, declared)
    if seen == identity.seen:
        return False
    first = not identity.seen
    identity.seen = seen
    declared = declared or NOTHING_DECLARED
    config = {"draft_model": declared.draft_model, "method": declared.method} | dict(reading.config)
    tokens = reading.num_speculative_tokens or declared.num_speculative_tokens
    changes: list[tuple[attribution.MarkKind, str, str, str]] = [
        (REGIME_MARKS.get(name, "config"), name, identity.config.get(name, ""), value)
        for name, value in config.items()
    ]
    changes.append(("engine_version", "engine version", identity.engine_version, reading.engine_version))
    before = str(identity.num_speculative_tokens or "")
    changes.append(("num_speculative_tokens", "num_speculative_tokens", before, str(tokens or "")))
    real = [change for change in changes if change[2] and change[3] and change[2] != change[3]]
    said = dict((*reading.facts, *declared.facts))
    facts = [("fact", name, identity.facts.get(name, ""), value) for name, value in said.items()]
    for kind, name, old, new in [*real, *facts]:
        if old and new and old != new:
            streams.remember(identity, Mark(at, kind, f"{name} went from {old} to {new}"))  # type: ignore[arg-type]
    identity.config |= {name: value for name, value in config.items() if value}
    identity.facts |= said
    identity.engine_version = reading.engine_version or identity.engine_version
    identity.num_speculative_tokens = tokens or identity.num_speculative_tokens
    if real and not first:
        identity.regimes += 1
    return bool(real) and not first


def _judge(plan: Plan, state: State, news: Sequence[_News]) -> tuple[Observation | None, list[Event]]:
    """Return what one round shows of its streams (None: nothing was counted) and the events that follow."""
    width = max(len(each.reading.accepted) for each in news)
    if width > state.num_positions:
        state.widen(width)
    rows = np.array([each.row for each in news], np.intp)
    ledger = table.take(state.ledger, rows)
    readings = deltas.stack(
        [each.reading for each in news],
        np.array([each.at for each in news]),
        np.array([each.since for each in news]),
        min(state.num_positions, MOST_POSITIONS),
    )
    counts, outcome = deltas.between(ledger, rows, readings)
    table.put(state.ledger, rows, ledger)
    changed, switched = _recognise(plan, state, news, outcome <= deltas.Outcome.BASE)
    counts = replace(counts, new_regime=changed[outcome == deltas.Outcome.COUNTED])
    _note_status(state, news, rows, outcome)
    if len(counts.rows) == 0:
        return None, switched
    sums = table.take(state.sums, counts.rows)
    windows.add(sums, counts, plan.windows)
    table.put(state.sums, counts.rows, sums)
    watch = table.take(state.watch, counts.rows)
    findings = detectors.step(plan.detection, watch, counts)
    table.put(state.watch, counts.rows, watch)
    _note_findings(state, counts, findings)
    raised = [_raise(plan, state, counts, alarm) for alarm in findings.alarms]
    return Observation(counts, findings), [*switched, *raised]


def _note_status(
    state: State, news: Sequence[_News], rows: npt.NDArray[np.intp], outcome: npt.NDArray[np.int64]
) -> None:
    good = (outcome <= deltas.Outcome.BASE) | (outcome == deltas.Outcome.WAITING)
    status = table.take(state.status, rows)
    at = np.array([each.at for each in news])
    status["last_at"] = np.where(good, at, status["last_at"])
    begun = np.fmin(at, np.array([each.since for each in news]))
    status["first_at"] = np.where(np.isnan(status["first_at"]), begun, status["first_at"])
    status["speculating"] = np.where(good, [each.reading.speculating for each in news], status["speculating"])
    status["running"] = np.where(good, [each.reading.running for each in news], status["running"])
    status["decreases"] += outcome == deltas.Outcome.HELD
    table.put(state.status, rows, status)


def _note_findings(state: State, counts: deltas.Counts, findings: Findings) -> None:
    status = table.take(state.status, counts.rows)
    for name in ("score_down", "score_up", "baseline_mal", "baseline_conditional", "condition"):
        status[name] = getattr(findings, name)
    drafts = counts.values[:, Counter.DRAFTS]
    tokens = counts.values[:, Counter.GENERATION_TOKENS]
    status["tokens_at"] = np.where(
        (tokens > 0) | (np.isnan(tokens) & (drafts > 0)), counts.at, status["tokens_at"]
    )
    status["drafts_at"] = np.where(drafts > 0, counts.at, status["drafts_at"])
    status["violations"] += quality.violations(counts)
    table.put(state.status, counts.rows, status)
    for index in np.flatnonzero(counts.restarted):
        text = "the engine restarted: its counters began anew"
        streams.remember(state.identities[counts.rows[index]], Mark(float(counts.at[index]), "restart", text))


def _raise(plan: Plan, state: State, counts: deltas.Counts, alarm: Alarm) -> Event:
    """Return the event that an alarm opens, changes or closes; the stream keeps it while it is open."""
    row = int(counts.rows[alarm.index])
    identity = state.identities[row]
    before, after = windows.around(state.sums[row : row + 1], alarm.change_point_at, plan.windows)
    cost = _cost(alarm, before, after)
    open_event = identity.event
    if alarm.action == "close" and open_event is not None:
        event = events.closed(open_event, alarm.raised_at)
    elif alarm.action == "update" and open_event is not None:
        event = events.updated(open_event, alarm, cost)
    else:
        interval = float(state.ledger["interval"][row])
        change = (alarm.change_point_low, alarm.change_point_high)
        why = attribution.around(change, interval, identity.marks, before, after)
        event = events.opened(identity.id, identity.key, alarm, cost, why)
        _count_change(state, row, event)
    if alarm.action != "note":
        identity.event = event if event.status == "open" else None
    return event


def _count_change(state: State, row: int, event: Event) -> None:
    identity = state.identities[row]
    direction = "up" if event.kind == "improvement" else "none" if event.kind == "regime_change" else "down"
    key = (event.kind, direction)
    identity.change_counts[key] = identity.change_counts.get(key, 0) + 1
    identity.last_change_at = event.raised_at
    state.status["events"][row] += 1


def _cost(alarm: Alarm, before: windows.Sums, after: windows.Sums) -> Cost:
    """Return what the change costs: from delivered tokens and step times where the page has them."""
    old, new = estimates.from_sums(before), estimates.from_sums(after)
    tokens = float(new.tokens_per_step[0] / old.tokens_per_step[0])
    if not math.isfinite(tokens):
        tokens = alarm.after.mal / alarm.before.mal if alarm.before.mal > 0 else math.nan
    tpot = float(new.implied_tpot_seconds[0] / old.implied_tpot_seconds[0])
    if not math.isfinite(tpot):
        tpot = 1.0 / tokens if tokens > 0 else math.nan
    return Cost(tokens, tpot, events.benefit_lost(alarm.before.mal, alarm.after.mal))


def _switched_off(state: State, row: int, at: float) -> Event:
    """Return the note that a stream's page no longer has speculation."""
    identity = state.identities[row]
    fact = "the page no longer has the engine's speculation counters: speculation is not configured any more"
    why = attribution.Attribution((fact,), (attribution.Cause("config", 1.0, fact),))
    event = events.noted(identity.id, identity.key, "speculation_off", at, why)
    _count_change(state, row, event)
    return event
