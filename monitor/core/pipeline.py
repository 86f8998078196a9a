"""The only composer: scrapes -> readings -> counts -> findings -> events, for one stream or thousands.

The live service, a replay and a test all call `step`. It takes the scrapes of a tick in any grouping; the
events do not depend on the grouping, because no stage lets one row of the arrays influence another.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from monitor.core import detectors, streams, tables
from monitor.core.counts import deltas, lateness, windows
from monitor.core.counts import readings as arrays
from monitor.core.economics import fits
from monitor.core.events.attribution.signs import Mark
from monitor.core.pages import looks
from monitor.core.pages.engines import iterations
from monitor.core.pages.engines.base import Counter
from monitor.core.pages.scrapes import Failure, StreamKey
from monitor.core.streams import (
    MOST_POSITIONS,
    State,
    TargetState,
    fleet_events,
    heirs,
    losses,
    net_losses,
    notes,
    pinned,
    presence,
    present,
    quality,
    regimes,
    release_events,
    stream_events,
)
from monitor.core.streams.plans import Plan
from monitor.core.streams.regimes import NOTHING_DECLARED, Declared

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy.typing as npt

    from monitor.core.detectors import Findings
    from monitor.core.events import Event
    from monitor.core.pages.engines.base import Reading
    from monitor.core.pages.scrapes import Scrape

__all__ = ["Looked", "Observation", "Plan", "Step", "advance", "begin", "look", "step"]


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
class Looked:
    """A scrape that was read: what it says, how the next one is read, and which engine's page it is."""

    scrape: Scrape
    said: looks.Look
    memory: looks.Memory
    engine: str


@dataclass(frozen=True, slots=True)
class _RowNews:
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
    return advance(plan, state, look(plan, state, scrapes))


def look(plan: Plan, state: State, scrapes: Sequence[Scrape]) -> list[Looked]:
    """Return the scrapes with what their pages say, in the order given, for `advance`.

    Of the state only the memories of how pages are read are touched, which nothing else reads: whoever looks
    at the state meanwhile need not wait for a page of many megabytes.
    """
    memories: dict[str, looks.Memory] = {}
    found = []
    for scrape in scrapes:
        if scrape.target not in memories:
            known = state.targets.get(scrape.target)
            memories[scrape.target] = looks.Memory() if known is None else known.memory
        memory = memories[scrape.target]
        said = _said(plan.declared.get(scrape.target, NOTHING_DECLARED), memory, scrape)
        engine = memory.schema.engine.name if memory.schema is not None else ""
        found.append(Looked(scrape, said, memory, engine))
    return found


def advance(plan: Plan, state: State, looked: Sequence[Looked]) -> Step:
    """Return what scrapes that were read show; `state` is advanced in place and is part of the result."""
    observations: list[Observation] = []
    found: list[Event] = []
    for batch in _rounds(looked):
        news, changed = _read(plan, state, batch)
        found += losses.stamped(plan, state, changed)
        if news:
            observation, raised = _judge(plan, state, news)
            if observation is not None:
                observations.append(observation)
            found += losses.stamped(plan, state, raised)
    return Step(state, tuple(observations), tuple(found))


def _rounds(looked: Sequence[Looked]) -> Iterator[Sequence[Looked]]:
    """Yield groups in which no target stands twice, in the order given."""
    batch: list[Looked] = []
    targets: set[str] = set()
    for each in looked:
        if each.scrape.target in targets:
            yield batch
            batch, targets = [], set()
        batch.append(each)
        targets.add(each.scrape.target)
    if batch:
        yield batch


def _read(plan: Plan, state: State, batch: Sequence[Looked]) -> tuple[list[_RowNews], list[Event]]:
    """Return the readings of a round, each with its stream's row, and the events of engines that moved.

    Streams that are new get a row.
    """
    found: list[tuple[StreamKey, float, float, Reading]] = []
    changed: list[Event] = []
    for looked in batch:
        scrape = looked.scrape
        target = state.targets.setdefault(scrape.target, TargetState())
        since = target.good_at if scrape.readings is None and target.good_at <= scrape.at else math.nan
        declared = plan.declared.get(scrape.target, NOTHING_DECLARED)
        _note_look(target, looked)
        readings = looked.said.readings
        if readings and looked.engine:
            changed += presence.moved(state, scrape.target, looked.engine, scrape.at)
        for reading in readings:
            told = regimes.as_declared(reading, declared)
            key = StreamKey(scrape.target, told.model_name, told.replica)
            found.append((key, scrape.at, since, told))
    fresh = [key for key in dict.fromkeys(key for key, _, _, _ in found) if key not in state.rows]
    if fresh:
        fitting = streams.admitted(state, fresh, plan.limits)
        if fitting:
            state.add(fitting)
        for key, _, _, _ in found:
            state.targets[key.target].dropped += key not in state.rows
    news = [
        _RowNews(state.rows[key], at, since, reading)
        for key, at, since, reading in found
        if key in state.rows
    ]
    return news, changed


def _said(declared: Declared, memory: looks.Memory, scrape: Scrape) -> looks.Look:
    """Return what one scrape says; `memory` is brought up to date."""
    if scrape.readings is not None:
        return looks.Look(scrape.readings)
    if scrape.body is not None and declared.engine == iterations.NAME:
        return looks.read_iterations(memory, scrape.body, scrape.beside, scrape.at, declared.model_name)
    if scrape.body is not None:
        return looks.read(memory, scrape.body, scrape.beside, declared.engine)
    if scrape.failure is not None:
        return looks.Look(failure=scrape.failure)
    return looks.Look(failure=Failure("empty", "the scrape holds neither a page nor counters"))


def _note_look(target: TargetState, looked: Looked) -> None:
    """Note with the target how one look at it went."""
    scrape, said = looked.scrape, looked.said
    target.memory = looked.memory
    target.scrapes += 1
    target.last_at = scrape.at
    target.duration = scrape.duration
    target.failure = said.failure
    if said.failure is not None:
        target.failures[said.failure.reason] = target.failures.get(said.failure.reason, 0) + 1
    else:
        target.good_at = scrape.at
    for check, count in (("unreadable_line", len(said.problems)), ("duplicate_series", said.duplicates)):
        if count:
            target.problems[check] = target.problems.get(check, 0) + count


def _recognise(
    plan: Plan, state: State, news: Sequence[_RowNews], believed: npt.NDArray[np.bool_]
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
        changed[index] = regimes.identify(plan.declared.get(target), identity, reading, at)
        if identity.engine == "":
            memory = state.targets[target].memory
            identity.engine = reading.engine or (memory.schema.engine.name if memory.schema else "counters")
        drafted = not math.isnan(state.status["drafts_at"][row])
        if drafted and state.status["speculating"][row] and not reading.speculating:
            switched.append(stream_events.switched_off(state, row, at))
    return changed, switched


def _judge(plan: Plan, state: State, news: Sequence[_RowNews]) -> tuple[Observation | None, list[Event]]:
    """Return what one round shows of its streams (None: nothing was counted) and the events that follow."""
    width = max(len(each.reading.accepted) for each in news)
    if width > state.num_positions:
        state.widen(width)
    rows = np.array([each.row for each in news], np.intp)
    ledger = tables.take(state.ledger, rows)
    now = arrays.stack(
        [each.reading for each in news],
        np.array([each.at for each in news]),
        np.array([each.since for each in news]),
        min(state.num_positions, MOST_POSITIONS),
    )
    counts, outcome = deltas.between(ledger, rows, now)
    if ledger["set_back"].any():
        for noted in (state.watch, state.status):
            lateness.follow(noted, rows, ledger["set_back"])
        ledger["set_back"] = 0.0
    tables.put(state.ledger, rows, ledger)
    changed, switched = _recognise(plan, state, news, outcome <= deltas.Outcome.BASE)
    counts.new_regime[:] = changed[outcome == deltas.Outcome.COUNTED]
    _note_status(state, news, rows, now, outcome)
    if len(counts.rows) == 0:
        return None, switched
    _note_activity(state, counts)
    switched += quality.sift(state, counts, now.resolution[outcome == deltas.Outcome.COUNTED])
    _add_up(plan, state, counts)
    watch = tables.take(state.watch, counts.rows)
    heirs.begin(state, counts, watch)
    findings = detectors.step(plan.detection, watch, counts)
    heirs.teach(state, counts, watch, findings)
    tables.put(state.watch, counts.rows, watch)
    findings, shared = fleet_events.judge(plan.detection, state, counts, watch, findings)
    findings, released = release_events.judge(plan.detection, plan.declared, state, counts, findings)
    _note_findings(state, counts, findings)
    raised = [stream_events.raised(state, counts, alarm, plan.windows) for alarm in findings.alarms]
    looked = present.looked_at(state, counts, watch["trouble"]["kind"] > 0, plan.windows)
    said = [*switched, *raised, *shared, *released, *looked, *_judge_worth(plan, state, counts)]
    return Observation(counts, findings), said


def _judge_worth(plan: Plan, state: State, counts: deltas.Counts) -> list[Event]:
    """Return the events of what speculation is worth, beside those of its changes."""
    return [
        *net_losses.judge(plan, state, counts),
        *pinned.judge(plan.pinned, state, counts),
        *notes.filled(state, counts, plan.windows),
    ]


def _add_up(plan: Plan, state: State, counts: deltas.Counts) -> None:
    sums = tables.take(state.sums, counts.rows)
    windows.add(sums, counts, plan.windows)
    tables.put(state.sums, counts.rows, sums)
    step_times = tables.take(state.step_times, counts.rows)
    fits.add(step_times, counts, state.status["running"][counts.rows])
    tables.put(state.step_times, counts.rows, step_times)


def _note_status(
    state: State,
    news: Sequence[_RowNews],
    rows: npt.NDArray[np.intp],
    now: arrays.Readings,
    outcome: npt.NDArray[np.int64],
) -> None:
    good = (outcome <= deltas.Outcome.BASE) | (outcome == deltas.Outcome.WAITING)
    status = tables.take(state.status, rows)
    np.copyto(status["last_at"], now.at, where=good)
    first = np.isnan(status["first_at"])
    if first.any():
        np.copyto(status["first_at"], np.fmin(now.at, now.since), where=first)
    np.copyto(status["speculating"], [each.reading.speculating for each in news], where=good)
    np.copyto(status["undecided"], [each.reading.undecided for each in news], where=good)
    np.copyto(status["running"], now.running, where=good)
    if not good.all():
        status["decreases"] += outcome == deltas.Outcome.HELD
        status["late"] += outcome == deltas.Outcome.LATE
    tables.put(state.status, rows, status)


def _note_activity(state: State, counts: deltas.Counts) -> None:
    status = tables.take(state.status, counts.rows)
    drafts = counts.values[:, Counter.DRAFTS]
    tokens = counts.values[:, Counter.GENERATION_TOKENS]
    drafted = drafts > 0
    np.copyto(status["tokens_at"], counts.at, where=(tokens > 0) | (np.isnan(tokens) & drafted))
    np.copyto(status["drafts_at"], counts.at, where=drafted)
    tables.put(state.status, counts.rows, status)


def _note_findings(state: State, counts: deltas.Counts, findings: Findings) -> None:
    status = tables.take(state.status, counts.rows)
    for name in ("score_down", "score_up", "baseline_mal", "baseline_conditional", "condition"):
        status[name] = getattr(findings, name)
    tables.put(state.status, counts.rows, status)
    for index in np.flatnonzero(counts.restarted):
        text = "the engine restarted: its counters began anew"
        streams.remember(state.identities[counts.rows[index]], Mark(float(counts.at[index]), "restart", text))
