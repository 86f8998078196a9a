"""Change detection: `step` turns the counts of a batch of streams into scores, conditions and alarms."""

from __future__ import annotations

from dataclasses import dataclass
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
    Verdict,
)
from monitor.engines.base import Counter

if TYPE_CHECKING:
    from monitor.deltas import Counts
    from monitor.detectors.base import Bools, Floats, State

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
        ("floor", floor.DTYPE),
        ("trouble", troubles.DTYPE),
        ("num_speculative_tokens", "i8"),
    ],
)

LEVEL_FLOOR = 0.004
KNOWN_TRIALS = 300.0
PLUNGE_SECONDS = 20.0
PLUNGE_BUCKETS = 3
PLUNGE_DRAFTS = 500.0
WARM_SECONDS = 1800.0
WARM_BUCKETS = 40
CALM = 0.5


def allocate(plan: Plan, n: int) -> State:
    """Return the state of `n` streams that were never seen."""
    del plan
    state = np.zeros(n, DTYPE)
    noise.allocate(state["noise"])
    level.allocate(state["level"])
    shape.allocate(state["shape"])
    floor.allocate(state["floor"])
    return state


def step(plan: Plan, state: State, counts: Counts) -> Findings:
    """Return what the detectors find in one batch; `state` (the rows of `counts`) is changed in place."""
    trials = evidence.from_counts(counts)
    baseline, trouble = state["baseline"], state["trouble"]
    notes = _new_regimes(state, counts, trials)
    rate = reference.rates(baseline)
    known = baseline["trials"] >= KNOWN_TRIALS
    began = np.where(np.isnan(trials.seconds), trials.at, trials.at - trials.seconds)
    dead, alive = floor.step(plan, state["floor"], trials.drafts, trials.accepted, began)
    tokens = counts.values[:, Counter.GENERATION_TOKENS]
    silent = floor.silence(plan, state["floor"], trials.drafts, tokens, began, trials.at)
    base_information = (baseline["trials"] * rate * (1.0 - rate) * known).sum(1)
    spread = state["noise"]["spread"][:, 0]
    age = trials.at - baseline["began_at"]
    ready = (
        (trials.drafts > 0.0)
        & (baseline["buckets"] >= PLUNGE_BUCKETS)
        & (age >= PLUNGE_SECONDS)
        & (baseline["drafts"] >= PLUNGE_DRAFTS)
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
        spread / np.maximum(base_information, 1.0),
        began,
        ready,
    )
    closed = evidence.gather(state["bucket"], trials)
    rows = np.flatnonzero(closed)
    found = alarms.Seen(len(closed), fell, fell_since, dead, alive, silent)
    if len(rows):
        sub = state if len(rows) == len(state) else state[rows]
        _full_buckets(plan, sub, trials, rows, rate[rows], known[rows], found)
        if sub is not state:
            state[rows] = sub
    evidence.empty(state["bucket"], closed)
    raised = alarms.settle(plan, state, trials, rate, found)
    warm = baseline["buckets"] >= WARM_BUCKETS
    return Findings(
        score_down=found.score_down(),
        score_up=found.score_up(),
        baseline_mal=reference.mean_length(baseline, rate),
        baseline_conditional=np.where(known, rate, np.nan),
        condition=troubles.conditions(trouble, warm),
        alarms=(*notes, *raised),
    )


def _full_buckets(
    plan: Plan,
    state: State,
    trials: evidence.Trials,
    rows: Floats,
    rate: Floats,
    known: Bools,
    found: alarms.Seen,
) -> None:
    """Run what works on full buckets over their rows and write what was seen into `found`."""
    bucket, baseline, trouble = state["bucket"], state["baseline"], state["trouble"]
    at, began = trials.at[rows], bucket["began_at"].copy()
    seen = scores.against(bucket["trials"], bucket["successes"], rate, known)
    floors = np.full((len(rows), POSITIONS), shape.FLOOR)
    floors[:, 0] = LEVEL_FLOOR
    score = np.concatenate([seen.level[:, None], seen.contrast], 1)
    information = np.concatenate([seen.level_information[:, None], seen.contrast_information], 1)
    variance = noise.variance(state["noise"], information, floors)
    usable = information > 2.0
    age = np.maximum(at - np.where(baseline["buckets"] > 0, baseline["began_at"], began), 60.0)
    open_ = trouble["kind"] > 0
    warm = (baseline["buckets"] >= WARM_BUCKETS) & (age >= WARM_SECONDS) & ~open_
    starting = baseline["buckets"] < 5
    verdict = level.step(
        plan, state["level"], score[:, 0], variance[:, 0], began, age, warm & usable[:, 0], ~open_ & ~starting & usable[:, 0]
    )
    base_scores = scores.against(baseline["trials"], baseline["successes"], rate, known)
    uncertainty = state["noise"]["spread"][:, 1:] / np.maximum(base_scores.contrast_information, 1.0)
    shifted = shape.step(
        plan, state["shape"], score[:, 1:], variance[:, 1:], uncertainty, began, age, warm[:, None] & usable[:, 1:]
    )
    excitement = np.maximum(np.maximum(verdict.down, verdict.up), shifted.max((1, 2)))
    excitement = np.maximum(excitement, found.fell[rows])
    calm = (excitement < CALM) & ~open_ & ~starting
    learning = calm[:, None] & usable
    local = score.copy()
    local[:, 0] -= state["level"]["local"]
    noise.learn(state["noise"], local, information, floors, learning)
    shape.learn(state["shape"], score[:, 1:], variance[:, 1:], learning[:, 1:])
    level.follow(state["level"], score[:, 0], learning[:, 0])
    promised = bucket["drafts"] * reference.expected_accepted(
        rate, trials.drafted[rows].astype(np.float64), trials.drafted[rows].astype(np.float64), trials.single[rows]
    )
    missing = troubles.follow(trouble, bucket, promised)
    over = troubles.recovery(trouble, score, variance)
    found.take(rows, verdict, shifted, missing, over, score, seen, warm)
    weight = 1.0 / (1.0 + LEVEL_FLOOR / state["noise"]["spread"][:, 0] * information[:, 0])
    frozen = open_ | (found.dead[rows] >= 1.0)
    baseline["drafted"] = np.where(frozen, baseline["drafted"], trials.drafted[rows])
    baseline["single"] = trials.single[rows]
    reference.add(baseline, bucket, at, weight, calm, frozen)


def _new_regimes(state: State, counts: Counts, trials: evidence.Trials) -> tuple[Alarm, ...]:
    """Keep what stays comparable when a regime begins: the baselines of positions that both have."""
    old = state["num_speculative_tokens"]
    new = np.where(counts.num_speculative_tokens > 0, counts.num_speculative_tokens, counts.positions)
    changed = counts.new_regime & (old > 0) & (new > 0) & (old != new)
    notes: tuple[Alarm, ...] = ()
    if changed.any():
        notes = tuple(alarms.regime_note(state, trials, int(row)) for row in np.flatnonzero(changed))
        shared = np.minimum(old, new)
        for name in ("trials", "successes"):
            state["bucket"][name] = np.where(changed[:, None], 0.0, state["bucket"][name])
        state["bucket"]["drafts"] = np.where(changed, 0.0, state["bucket"]["drafts"])
        reference.forget(state["baseline"], shared, changed)
        level.restart(state["level"], changed)
        shape.restart(state["shape"], changed)
    state["num_speculative_tokens"] = np.where(new > 0, new, old)
    return notes
