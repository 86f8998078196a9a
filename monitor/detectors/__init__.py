"""Change detection: `step` turns the counts of a batch of streams into scores, conditions and alarms."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from monitor.detectors import (
    alarms,
    evidence,
    floor,
    level,
    noise,
    plunge,
    reference,
    scores,
    shape,
    trend,
    troubles,
)
from monitor.detectors.base import (
    POSITIONS,
    Action,
    Alarm,
    Condition,
    Findings,
    Kind,
    Level,
    Plan,
    Severity,
)
from monitor.engines.base import Counter

if TYPE_CHECKING:
    from monitor.deltas import Counts
    from monitor.detectors.base import Bools, Floats, Indices, State

__all__ = [
    "POSITIONS",
    "Action",
    "Alarm",
    "Condition",
    "Findings",
    "Kind",
    "Level",
    "Plan",
    "Severity",
    "allocate",
    "step",
]

DTYPE = np.dtype(
    [
        ("bucket", evidence.DTYPE),
        ("baseline", reference.DTYPE),
        ("noise", noise.dtype(POSITIONS)),
        ("level", level.DTYPE),
        ("shape", shape.DTYPE),
        ("plunge", plunge.DTYPE),
        ("trend", trend.DTYPE),
        ("floor", floor.DTYPE),
        ("trouble", troubles.DTYPE),
        ("num_speculative_tokens", "i8"),
    ],
)

LEVEL_FLOOR = 0.004
WARM_SECONDS = 1800.0
WARM_BUCKETS = 40
STARTING_BUCKETS = 3
CALM = 0.5
CALM_PLUNGE = 0.1
LEAST_INFORMATION = 2.0


def allocate(plan: Plan, n: int) -> State:
    """Return the state of `n` streams that were never seen."""
    del plan
    state = np.zeros(n, DTYPE)
    for name, detector in (("noise", noise), ("level", level), ("shape", shape), ("trend", trend), ("floor", floor)):
        detector.allocate(state[name])
    return state


def step(plan: Plan, state: State, counts: Counts) -> Findings:
    """Return what the detectors find in one batch; `state` (the rows of `counts`) is changed in place."""
    trials = evidence.from_counts(counts)
    notes = _new_regimes(state, counts, trials)
    baseline = state["baseline"]
    rate = reference.rates(baseline)
    known = baseline["trials"] >= reference.KNOWN_TRIALS
    seen = _intervals(plan, state, trials, counts.values[:, Counter.GENERATION_TOKENS], rate, known)
    rows = np.flatnonzero(seen.full)
    if len(rows):
        part = state if len(rows) == len(state) else state[rows]
        _full_buckets(plan, part, trials, rows, rate[rows], known[rows], seen)
        if part is not state:
            state[rows] = part
        evidence.empty(state["bucket"], seen.full)
    raised = alarms.settle(plan, state, trials, rate, seen)
    return Findings(
        score_down=seen.falls(),
        score_up=seen.rises(),
        baseline_mal=reference.mean_length(baseline, rate),
        baseline_conditional=np.where(known, rate, np.nan),
        condition=troubles.conditions(state["trouble"], baseline["buckets"] >= WARM_BUCKETS),
        alarms=(*notes, *raised),
    )


def _intervals(
    plan: Plan, state: State, trials: evidence.Trials, tokens: Floats, rate: Floats, known: Bools
) -> alarms.Sightings:
    """Return what single intervals show, and gather them into buckets."""
    baseline, spread = state["baseline"], state["noise"]["spread"][:, 0]
    began = np.where(np.isnan(trials.seconds), trials.at, trials.at - trials.seconds)
    healthy = baseline["drafts"] >= plunge.LEAST_DRAFTS
    dead, alive = floor.step(plan, state["floor"], trials.drafts, trials.accepted, began, healthy)
    silent = floor.silence(plan, state["floor"], trials.drafts, tokens, began, trials.at)
    information = (baseline["trials"] * rate * (1.0 - rate) * known).sum(1)
    ready = (
        (trials.drafts > 0.0)
        & healthy
        & (baseline["buckets"] >= plunge.LEAST_BUCKETS)
        & (trials.at - baseline["began_at"] >= plunge.LEAST_SECONDS)
    )
    fell, fell_since = plunge.step(
        plan,
        state["plunge"],
        trials.trials * known,
        trials.successes * known,
        rate,
        state["level"]["local"],
        spread,
        LEVEL_FLOOR,
        spread / np.maximum(information, 1.0),
        began,
        ready,
    )
    trouble = state["trouble"]
    open_ = trouble["kind"] > 0
    if open_.any():
        more = (trials.trials, trials.successes, trials.drafts, trials.accepted)
        troubles.gather(trouble["after"], more, troubles.AFTER_KEPT, open_)
    size = len(fell)
    zero, columns = np.zeros(size), np.zeros((10, size))
    return alarms.Sightings(
        fell,
        fell_since,
        dead,
        alive,
        silent,
        evidence.gather(state["bucket"], trials),
        *columns,
        np.zeros((size, shape.CONTRASTS, 2)),
        np.zeros((size, POSITIONS)),
        zero > 0.0,
    )


def _full_buckets(
    plan: Plan,
    state: State,
    trials: evidence.Trials,
    rows: Indices,
    rate: Floats,
    known: Bools,
    seen: alarms.Sightings,
) -> None:
    """Run what works on full buckets over their rows and write what was seen into `seen`."""
    bucket, baseline, trouble = state["bucket"], state["baseline"], state["trouble"]
    at, began = trials.at[rows], bucket["began_at"].copy()
    found = scores.against(bucket["trials"], bucket["successes"], rate, known)
    floors = np.full((len(rows), POSITIONS), shape.FLOOR)
    floors[:, 0] = LEVEL_FLOOR
    score = np.concatenate([found.level[:, None], found.contrast], 1)
    information = np.concatenate([found.level_information[:, None], found.contrast_information], 1)
    variance = noise.variance(state["noise"], information, floors)
    usable = information > LEAST_INFORMATION
    age = np.maximum(at - np.where(baseline["buckets"] > 0, baseline["began_at"], began), 60.0)
    closed = trouble["kind"] == 0
    started = closed & (baseline["buckets"] >= STARTING_BUCKETS)
    warm = closed & (baseline["buckets"] >= WARM_BUCKETS) & (age >= WARM_SECONDS)
    verdict = level.step(
        plan,
        state["level"],
        score[:, 0],
        variance[:, 0],
        began,
        at,
        age,
        warm & usable[:, 0],
        started & usable[:, 0],
    )
    own = scores.against(baseline["trials"], baseline["successes"], rate, known)
    uncertainty = state["noise"]["spread"][:, 1:] / np.maximum(own.contrast_information, 1.0)
    shifted = shape.step(
        plan, state["shape"], score[:, 1:], variance, uncertainty, began, age, warm[:, None] & usable[:, 1:]
    )
    excitement = np.maximum(np.maximum(verdict.down, verdict.up), shifted.reshape(len(rows), -1).max(1))
    calm = started & (excitement < CALM) & (seen.plunge[rows] < CALM_PLUNGE)
    learning = calm[:, None] & usable
    local = score.copy()
    local[:, 0] -= state["level"]["local"]
    noise.learn(state["noise"], local, information, floors, learning)
    shape.learn(state["shape"], score[:, 1:], variance[:, 1:], learning[:, 1:])
    level.follow(state["level"], score[:, 0], learning[:, 0])
    gathered = (bucket["trials"], bucket["successes"], bucket["drafts"], bucket["accepted"])
    troubles.gather(trouble["recent"], gathered, troubles.RECENT_KEPT, np.ones(len(rows), bool))
    seen.down[rows], seen.up[rows] = verdict.down, verdict.up
    seen.down_since[rows], seen.up_since[rows] = verdict.down_since, verdict.up_since
    seen.shape[rows] = shifted
    seen.score[rows] = score
    if not closed.all():
        rhythm = trend.rhythm(state["trend"], at)
        seen.over[rows] = troubles.recovered(trouble, score, variance, state["trend"]["wander"], rhythm)
    _full_blocks(plan, state, rows, rate, known, at, seen)
    weight = 1.0 / (1.0 + LEVEL_FLOOR / state["noise"]["spread"][:, 0] * information[:, 0])
    frozen = ~closed | (seen.dead[rows] >= 1.0)
    baseline["drafted"] = np.where(frozen, baseline["drafted"], trials.drafted[rows])
    baseline["single"] = trials.single[rows]
    reference.add(baseline, bucket, at, weight, calm, frozen)


def _full_blocks(
    plan: Plan, state: State, rows: Indices, rate: Floats, known: Bools, at: Floats, seen: alarms.Sightings
) -> None:
    """Run what works on blocks of full buckets."""
    full = np.flatnonzero(trend.gather(state["trend"], state["bucket"], at))
    if not len(full):
        return
    part = state["trend"][full]
    on = (state["trouble"]["kind"][full] == 0) & (state["baseline"]["buckets"][full] >= WARM_BUCKETS)
    verdict = trend.step(plan, part, rate[full], known[full], at[full], on)
    state["trend"][full] = part
    where = rows[full]
    seen.trend_down[where], seen.trend_up[where] = verdict.down, verdict.up
    seen.trend_down_since[where], seen.trend_up_since[where] = verdict.down_since, verdict.up_since
    seen.trend_shift[where] = part["shift"]
    seen.trend_origin[where] = trend.against(part, rate[full])


def _new_regimes(state: State, counts: Counts, trials: evidence.Trials) -> tuple[Alarm, ...]:
    """Keep what stays comparable when a regime begins: the baselines of positions that both have."""
    old = state["num_speculative_tokens"].copy()
    new = np.where(counts.num_speculative_tokens > 0, counts.num_speculative_tokens, counts.positions)
    new = np.where(new > 0, new, old)
    state["num_speculative_tokens"] = new
    changed = np.flatnonzero(counts.new_regime & (old > 0) & (old != new))
    if not len(changed):
        return ()
    notes = tuple(alarms.regime_note(state, trials, row) for row in changed.tolist())
    part = state[changed]
    part["bucket"]["drafts"] = 0.0
    reference.forget(part["baseline"], np.minimum(old, new)[changed])
    trend.forget(part["trend"], np.minimum(old, new)[changed])
    level.restart(part["level"])
    shape.restart(part["shape"])
    state[changed] = part
    return notes
