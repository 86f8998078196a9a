"""What a stream leaves to the next one of its kind, and how a new stream begins from it.

A pod is new, its model, draft and traffic are not. What one stream has learnt of them in days (`LEARNT`:
rates, noise, how the level wanders, rhythm of day and week, what traffic explains, how heavy the tails are)
is copied into the row of the next, which then has every detector on duty from its first interval on. Left
out is what belongs to one stream alone: its windows, open sums and troubles.

Two streams of one kind need not stand at one level. How far they may lie apart (`doubt`, logits) widens the
band of `level` in the first hours and what the rhythm is sure of; the rest is seen to be their own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from monitor.core.detectors import base, level, plunge, shape, trend
from monitor.core.detectors.measures import evidence, noise, reference, rhythm, scores, traffic

if TYPE_CHECKING:
    from monitor.core.detectors.base import Floats, State

MEMORY_SECONDS = 6 * 3600.0
"""Seconds of usual traffic that a new stream's baseline begins with: its own outweighs them within a day."""

LOCAL_SECONDS = 3600.0
"""Seconds of traffic that where others stood lately is worth: what the local level remembers."""

OLD_SECONDS = 2 * 86400.0
"""Seconds at most that a new stream counts as old: every band has settled by then."""

SAMPLE = 1000.0
"""Drafts of the sums that stand for a level that is expected; any number would do."""

LARGEST_UNKNOWN = 0.12**2
"""Variance (logit²) at most for a day that was not learnt: swings of 0.2 logits are usual, one sd is half."""


PARTS: dict[str, tuple[np.dtype[np.void], tuple[str, ...]]] = {
    "bucket": (evidence.DTYPE, ("usual_lump",)),
    "noise": (noise.DTYPE, ("spread", "seen", "center")),
    "level": (
        level.DTYPE,
        ("gram", "cross", "weights", "signature", "spread", "learnt", "excursions", "excess"),
    ),
    "shape": (shape.DTYPE, ("product", "square", "excursions", "excess")),
    "plunge": (plunge.DTYPE, ("excursions", "excess")),
    "trend": (trend.DTYPE, ("rate", "rhythm", "spread", "wander", "blocks")),
    "traffic": (traffic.DTYPE, ("origin", "day", "square", "seen", "effect", "covariance", "usual")),
}
"""The parts of a stream's state that the next one of its kind begins with: the part's type, its fields."""


def _of_part(dtype: np.dtype[np.void], names: tuple[str, ...]) -> np.dtype[np.void]:
    return np.dtype([(name, dtype[name]) for name in names])


LEARNT = np.dtype(
    [
        ("sums", "f8", base.NUM_SUMS),  # of `MEMORY_SECONDS` of usual traffic, columns as in `base`
        ("seconds", "f8"),  # age of its baseline
        ("buckets", "f8"),  # in it
        ("drafted", "f8"),  # positions that nearly all drafts have
        ("single", "f8"),  # 1 where only the mean is known
        ("at", "f8"),  # when that was, unix seconds
        *((part, _of_part(dtype, names)) for part, (dtype, names) in PARTS.items()),
    ]
)
"""What is left of a stream: its usual traffic, the age of its baseline, and `PARTS`."""

NOBODY, SAME, BEFORE = 0, 1, 2  # codes of what a stream begins with
DTYPE = np.dtype(
    [
        ("from", "i1"),  # what it began with: of the `SAME` kind, of the kind `BEFORE`, or `NOBODY`'s
        ("since", "f8"),  # first drafts, unix seconds; 0 before
        ("taught_at", "f8"),  # when it last taught another, unix seconds
    ]
)


def left(state: State, row: int, now: float) -> State:
    """Return what one row of the detectors' state leaves, as an array of one record (`LEARNT`)."""
    found = np.zeros(1, LEARNT)
    baseline = state["baseline"][row]
    age = max(now - float(baseline["began_at"]), 1.0)
    found["sums"] = baseline["sums"] * min(MEMORY_SECONDS / min(age, reference.MEMORY_SECONDS), 1.0)
    found["seconds"], found["buckets"], found["at"] = age, baseline["buckets"], now
    found["drafted"], found["single"] = baseline["drafted"], baseline["single"]
    for part, (_, names) in PARTS.items():
        for name in names:
            found[part][name] = state[part][name][row]
    return found


def information(state: State, row: int) -> float:
    """Return 1 ÷ the variance (logit²) of where one row stood in its last hour."""
    one = state[row : row + 1]
    baseline = one["baseline"]
    found = scores.against(baseline["local"], baseline["rate"], reference.known(baseline)).information
    return float(1.0 / (noise.variance(one["noise"], found)[0, 0] - noise.LEVEL_FLOOR))


def expected(learnt: State, now: float) -> tuple[Floats, float]:
    """Return the sums [19] of 1000 drafts that the rhythm expects at a time, and their level's variance."""
    sums, known = learnt["sums"], learnt["sums"][:, base.TRIALS] > 0.0
    rate = (sums[:, base.SUCCESSES] + 0.5) / (sums[:, base.TRIALS] + 1.0)
    own = np.where(learnt["trend"]["rate"] > 0.0, learnt["trend"]["rate"], rate)
    seen = rhythm.expect(learnt["trend"]["rhythm"], np.array([now]))
    odds = own / (1.0 - own) * np.exp(seen.level)[:, None]
    rate = odds / (1.0 + odds)
    # how often a position is tried for each time that the one before was kept (more than once: the eighth)
    follows = sums[:, base.TRIALS] / np.maximum(
        np.concatenate([sums[:, [base.DRAFTS]], sums[:, base.SUCCESSES][:, :-1]], 1), 1e-9
    )
    found = np.zeros(base.NUM_SUMS)
    reach = SAMPLE
    for position in np.flatnonzero(known[0]).tolist():
        found[base.TRIALS][position] = reach * follows[0, position]
        found[base.SUCCESSES][position] = reach = found[base.TRIALS][position] * rate[0, position]
    # of mixed lengths, positions that are not judged are accepted, too
    judged = float(sums[0, base.ACCEPTED] / max(sums[0, base.SUCCESSES].sum(), 1e-9))
    found[base.DRAFTS], found[base.ACCEPTED] = SAMPLE, found[base.SUCCESSES].sum() * judged
    found[base.TOKENS] = SAMPLE * np.nan_to_num(reference.depth(sums))[0]
    return found, float(learnt["trend"]["wander"][0]) + min(float(seen.unknown[0]), LARGEST_UNKNOWN)


def begin(state: State, row: int, learnt: State, local: Floats, doubt: float, now: float) -> None:
    """Let a fresh `row` begin at `now` (unix seconds) with what others have `learnt` (one record).

    local [19]: sums of where streams of its kind stood lately; doubt: how far (one standard deviation,
    logits) the row may lie from there.
    """
    one = state[row : row + 1]
    for part, (_, names) in PARTS.items():
        for name in names:
            one[part][name] = learnt[part][name]
    baseline = one["baseline"]
    baseline["sums"] = learnt["sums"]
    # as if it had been an hour of the stream's own
    hour = float(learnt["sums"][0, base.DRAFTS]) * LOCAL_SECONDS / MEMORY_SECONDS
    baseline["local"] = local * hour / max(float(local[base.DRAFTS]), 1e-9)
    baseline["began_at"] = now - np.minimum(learnt["seconds"], OLD_SECONDS)
    baseline["life_began_at"] = now
    baseline["buckets"] = learnt["buckets"]
    baseline["drafted"], baseline["single"] = learnt["drafted"], learnt["single"]
    baseline["depth"] = np.nan_to_num(reference.depth(learnt["sums"]))
    baseline["alike"] = learnt["sums"][:, reference.LENGTHS]
    reference.derive(baseline)
    shift = scores.against(baseline["local"], baseline["rate"], reference.known(baseline)).shift[:, 0]
    level.inherit(one["level"], shift, doubt, now)
    rhythm.rebase(one["trend"]["rhythm"], np.zeros(1), doubt * doubt)


def keep_positions(state: State, row: int, kept: int) -> None:
    """Forget what a row began with of the positions from `kept` on: another k made them incomparable."""
    one, positions = state[row : row + 1], np.array([float(kept)])
    reference.forget(one["baseline"], positions)
    trend.forget(one["trend"], positions)
