"""Change detection: `step` turns the counts of a batch of streams into scores, conditions and alarms.

Intervals become trials per position (`evidence`), compared with a baseline (`reference`, `scores`, `noise`).
Detectors look at them at four paces: `floor` and `plunge` at every interval, `level` and `shape` at full
buckets of at least 8 s and 64 drafts, `trend` at blocks of five minutes. `diagnosis` and `alarms` make one
trouble of what they see, `troubles` says when it is over.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from monitor.core.detectors import (
    base,
    duty,
    floor,
    inheritance,
    lengths,
    level,
    lives,
    plunge,
    shape,
    sightings,
    trend,
    troubles,
)
from monitor.core.detectors.base import (
    POSITIONS,
    Action,
    Alarm,
    Bucket,
    Condition,
    DetectionPlan,
    Findings,
    Level,
)
from monitor.core.detectors.measures import evidence, noise, reference, rhythm, scores, traffic
from monitor.core.detectors.troubles import alarms, diagnosis, swings
from monitor.core.pages.engines.base import Counter

if TYPE_CHECKING:
    from monitor.core.counts.deltas import Counts
    from monitor.core.detectors.base import Bools, Floats, Indices, State
    from monitor.core.detectors.sightings import Sightings

__all__ = [
    "DETECTORS",
    "POSITIONS",
    "Action",
    "Alarm",
    "Condition",
    "DetectionPlan",
    "Findings",
    "Level",
    "allocate",
    "standing",
    "step",
]

DETECTORS = {module.NAME: module for module in alarms.DETECTORS}

DTYPE = np.dtype(
    [
        ("bucket", evidence.DTYPE),  # counts on their way to a full bucket
        ("baseline", reference.DTYPE),  # what acceptance in control looks like
        ("noise", noise.DTYPE),  # how much buckets scatter
        ("level", level.DTYPE),
        ("shape", shape.DTYPE),
        ("plunge", plunge.DTYPE),
        ("trend", trend.DTYPE),
        ("traffic", traffic.DTYPE),  # what requests look like
        ("floor", floor.DTYPE),  # dead and silent drafts
        ("trouble", troubles.DTYPE),  # the trouble that is open
        ("swings", swings.DTYPE),  # falls to a second level that come and go
        ("regime", lives.DTYPE),  # of which k, and what the last one was like
        ("heir", inheritance.DTYPE),  # what it began with from others of its kind
        ("lengths", lengths.DTYPE),  # lengths of drafts, where engines adapt them
    ],
)

CHUNK = 512
"""Rows that are worked on together: what one core's cache holds; only the speed depends on it."""

YOUNG_LOSS = 0.2
"""Share of the benefit that a fall of a young stream costs to be told: a quarter, known to a fifth of it."""

NEARLY = 0.99
"""Share of a limit that is shown of what is beyond it and yet no news."""

STARTED_BUCKETS = 3
"""Buckets before anything is learnt: the first ones are what the baseline begins with."""

CALM = 0.5
"""Share of a limit from which on a bucket teaches nothing: what may be a change must not become the usual."""

YOUNG_CALM = 0.2
"""The same of falls in a stream that is not warm: noise that learns a fall hides it."""

CALM_PLUNGE = 0.1
"""The same of `plunge`, whose sum is 0 while nothing is wrong."""

LEAST_INFORMATION = 2.0
"""Information (trials times p(1 - p)) below which a bucket has no score: about ten trials."""


def allocate(plan: DetectionPlan, n: int) -> State:
    """Return the state of `n` streams that were never seen."""
    del plan
    state = np.zeros(n, DTYPE)
    reference.allocate(state["baseline"])
    noise.allocate(state["noise"])
    level.allocate(state["level"])
    shape.allocate(state["shape"])
    trend.allocate(state["trend"])
    traffic.allocate(state["traffic"])
    floor.allocate(state["floor"])
    return state


def standing(state: State, row: int) -> tuple[Level, float, float]:
    """Return a row's level since its trouble opened, the logits that traffic explains of it, and the rest."""
    return alarms.standing(state, row)


def lately(state: State, row: int) -> Level:
    """Return where a row stood in its last hour without a trouble, unknown where it has none."""
    return diagnosis.measured(state, state["baseline"]["local"][row], row)


def step(plan: DetectionPlan, state: State, counts: Counts) -> Findings:
    """Return what the detectors find in one batch; `state` (the rows of `counts`) is changed in place."""
    if len(state) <= CHUNK:
        return _step(plan, state, counts)
    parts = []
    for start in range(0, len(state), CHUNK):
        rows = np.arange(start, min(start + CHUNK, len(state)))
        part = state[start : start + CHUNK]
        found = _step(plan, part, _rows_of(counts, rows))
        parts.append(replace(found, alarms=tuple(replace(a, index=a.index + start) for a in found.alarms)))
    return Findings(
        score_down=np.concatenate([part.score_down for part in parts]),
        score_up=np.concatenate([part.score_up for part in parts]),
        baseline_mal=np.concatenate([part.baseline_mal for part in parts]),
        baseline_conditional=np.concatenate([part.baseline_conditional for part in parts]),
        condition=np.concatenate([part.condition for part in parts]),
        alarms=tuple(alarm for part in parts for alarm in part.alarms),
    )


def _rows_of(counts: Counts, rows: Indices) -> Counts:
    """Return some rows of counts; in chunks that the cache holds, ten thousand streams take half the time."""
    return replace(
        counts,
        rows=counts.rows[rows],
        at=counts.at[rows],
        seconds=counts.seconds[rows],
        values=counts.values[rows],
        accepted=counts.accepted[rows],
        positions=counts.positions[rows],
        num_speculative_tokens=counts.num_speculative_tokens[rows],
        evidence=counts.evidence[rows],
        restarted=counts.restarted[rows],
        gap=counts.gap[rows],
        new_regime=counts.new_regime[rows],
    )


def _step(plan: DetectionPlan, state: State, counts: Counts) -> Findings:
    trials = evidence.from_counts(counts, reference.depth(state["baseline"]["sums"]))
    notes = lives.begin(state, counts)
    seen = _see_intervals(plan, state, trials, counts.values[:, Counter.GENERATION_TOKENS])
    traffic.gather(state["traffic"], counts.values)
    rows = np.flatnonzero(seen.full)
    if len(rows):
        part = state if len(rows) == len(state) else state[rows]
        _see_buckets(plan, part, trials, rows, seen)
        told = lives.compare(part, trials.at[rows]) + lengths.step(part, trials.at[rows])
        notes += [replace(note, index=int(rows[note.index])) for note in told]
        if part is not state:
            state[rows] = part
        evidence.empty(state["bucket"], seen.full)
    raised = alarms.settle(plan, state, trials, seen)
    baseline = state["baseline"]
    return Findings(
        score_down=seen.falls(),
        score_up=seen.rises(),
        baseline_mal=baseline["mal"].copy(),
        baseline_conditional=np.where(reference.known(baseline), baseline["rate"], np.nan),
        condition=troubles.conditions(state["trouble"], duty.complete(state, trials.at)),
        alarms=(*notes, *raised),
    )


def _see_intervals(plan: DetectionPlan, state: State, trials: evidence.Trials, tokens: Floats) -> Sightings:
    """Return what single intervals show, and gather them into buckets."""
    baseline = state["baseline"]
    healthy = baseline["sums"][:, base.DRAFTS] >= plunge.LEAST_DRAFTS
    dead = floor.step(plan, state["floor"], trials, healthy)
    alive = np.zeros(len(dead))
    if (state["trouble"]["kind"] == troubles.DEAD).any():
        alive = floor.alive(plan, state["floor"], trials)
    silent = floor.silence(plan, state["floor"], trials, tokens)
    spread, local = state["noise"]["spread"][:, 0], state["level"]["local"]
    fell = plunge.step(plan, state["plunge"], trials, baseline, spread, local)
    return sightings.of_intervals(fell, dead, alive, silent, evidence.gather(state["bucket"], trials))


def _see_buckets(
    plan: DetectionPlan, state: State, trials: evidence.Trials, rows: Indices, seen: Sightings
) -> None:
    """Run what works on full buckets over their rows and write what was seen into `seen`."""
    baseline, trouble = state["baseline"], state["trouble"]
    measured = _measure(state, trials.at[rows])
    undisturbed = trouble["kind"] == 0
    bucket = _unexplained(state, measured, undisturbed)
    started = undisturbed & (baseline["buckets"] >= STARTED_BUCKETS)
    warm, young = duty.warm(state, trials.at[rows]), baseline["buckets"] >= duty.YOUNG_BUCKETS
    verdict = level.step(plan, state["level"], bucket, warm | young, started & bucket.usable[:, 0])
    if not warm.all() or (bucket.age <= level.YOUNG_SECONDS).any():
        verdict = _of_young(plan, state, bucket, verdict, warm)
    # how noisy a contrast is must be known, too: those of a larger k's positions are young in an old stream
    settled = (warm & undisturbed)[:, None] & (state["noise"]["seen"][:, 1:] >= duty.WARM_BUCKETS)
    shifted = shape.step(plan, state["shape"], bucket, baseline, state["noise"]["spread"], settled)
    excitement = np.maximum(np.maximum(verdict.down, verdict.up), shifted.max(1))
    calm = started & verdict.calm & (excitement < CALM) & (seen.plunge[rows] < CALM_PLUNGE)
    calm &= warm | (verdict.down < YOUNG_CALM)
    learning = calm[:, None] & bucket.usable
    _learn(state, bucket, measured.score[:, 0] - state["traffic"]["explained"], learning)
    sightings.note(seen.level, rows, verdict)
    seen.shape[rows] = shifted
    seen.score[rows] = measured.score
    if not undisturbed.all():
        expected = rhythm.at_time(state["trend"]["rhythm"], bucket.at)
        seen.over[rows] = troubles.recovered(trouble, bucket, expected)
        swings.follow(state["swings"], trouble, bucket)
    troubles.gather(trouble, state["bucket"]["sums"])
    _see_blocks(plan, state, rows, bucket.at, seen)
    # many drafts of few requests count for no more than the requests
    weight = 1.0 / (1.0 + noise.LEVEL_FLOOR / state["noise"]["spread"][:, 0] * bucket.information[:, 0])
    joining = undisturbed & (seen.dead[rows] < 1.0)
    doubt = plunge.doubt(baseline, state["noise"]["spread"][:, 0])
    if joining.all():
        reference.add(baseline, state["bucket"], trials, rows, weight, calm, doubt)
    elif joining.any():
        part, bucket = baseline[joining], state["bucket"][joining]
        reference.add(part, bucket, trials, rows[joining], weight[joining], calm[joining], doubt[joining])
        baseline[joining] = part


def _of_young(
    plan: DetectionPlan, state: State, bucket: Bucket, verdict: base.Verdict, warm: Bools
) -> base.Verdict:
    """Return the verdict of `level` with what rows in their first hours show against their begin.

    What the first minutes were may have been bad luck: before a row is `warm` better is no news, and a fall
    is one where it costs `YOUNG_LOSS` of the benefit.
    """
    baseline = state["baseline"]
    own = (state["heir"]["from"] == inheritance.NOBODY) & (baseline["buckets"] >= duty.YOUNG_BUCKETS)
    unknown = plunge.doubt(baseline, state["noise"]["spread"][:, 0])
    fallen = level.from_begin(plan, state["level"], bucket, unknown, baseline["buckets"] * own)
    down = np.maximum(verdict.down, fallen)
    for row in np.flatnonzero((down >= 1.0) & (~warm | (fallen >= 1.0))).tolist():
        shift = np.array([level.estimate(state["level"], row, -1.0)])
        one = state[row : row + 1]
        lost = reference.lost_by(one["baseline"], shift)[0]
        lost = np.fmax(lost, reference.lost(one["baseline"], one["trouble"]["recent"], np.zeros(1))[0])
        down[row] = down[row] if lost >= YOUNG_LOSS else min(down[row], NEARLY)
    return replace(verdict, down=down, up=verdict.up * warm)


def _measure(state: State, times: Floats) -> Bucket:
    """Return the full buckets as scores against the baseline."""
    baseline, began = state["baseline"], state["bucket"]["began_at"].copy()
    found = scores.against(state["bucket"]["sums"], baseline["rate"], reference.known(baseline))
    age = np.maximum(times - np.where(baseline["buckets"] > 0.0, baseline["began_at"], began), 60.0)
    variance = noise.variance(state["noise"], found.information)
    usable = found.information > LEAST_INFORMATION
    score = found.shift - state["noise"]["center"] * usable
    return Bucket(times, began, age, score, found.information, variance, usable)


def _unexplained(state: State, bucket: Bucket, undisturbed: Bools) -> Bucket:
    """Return the full buckets with what traffic does not explain of the level's score."""
    explained = traffic.measure(state["traffic"], bucket.at, bucket.began_at, undisturbed)
    if not explained.any():
        return bucket
    score = bucket.score.copy()
    score[:, 0] = traffic.left(score[:, 0], explained, state["level"]["local"])
    return replace(bucket, score=score)


def _learn(state: State, bucket: Bucket, usual: Floats, learning: Bools) -> None:
    """Let calm buckets teach how noisy the scores are and where the level was, `usual` [B] traffic given."""
    around_local = bucket.score.copy()
    around_local[:, 0] -= state["level"]["local"]
    noise.learn(state["noise"], around_local, bucket.information, learning)
    shape.learn(state["shape"], bucket, learning)
    level.follow(state["level"], usual, learning[:, 0])


def _see_blocks(plan: DetectionPlan, state: State, rows: Indices, times: Floats, seen: Sightings) -> None:
    """Run what works on blocks of full buckets."""
    passing = state["traffic"]
    full = np.flatnonzero(trend.gather(state["trend"], state["bucket"], passing["deviation"], times))
    if not len(full):
        return
    part, baseline, about = state["trend"][full], state["baseline"][full], passing[full]
    on = (state["trouble"]["kind"][full] == 0) & (baseline["buckets"] >= duty.YOUNG_BUCKETS)
    verdict = trend.step(plan, part, baseline, about, times[full], on)
    state["trend"][full], passing[full] = part, about
    where = rows[full]
    sightings.note(seen.trend, where, verdict)
    seen.trend_shift[where] = part["shift"]
    seen.trend_origin[where] = trend.against(part, baseline["rate"])
