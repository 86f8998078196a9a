"""One open trouble a stream: what was seen of it, how it goes on, and the proof that it is over.

While a trouble is open the baseline is frozen. What moved (the level, or one contrast) is followed from
bucket to bucket; the trouble closes when buckets have shown that it is nearer to where it came from than to
where it had fallen to (`MIDWAY`): a cumulative sum of the log likelihood ratio of the two, two buckets at
least and `NATS` in all. It counts few requests, and how unsteady the stream is since the trouble began. An
improvement is over, too, when it has lasted for `ADOPT_SECONDS`: what was seen since is then the baseline. A
fall never is.

Measured (simulated, held-out seeds): a tenant of 45 minutes that costs 0.4 logits at 5,000 drafts a scrape
is closed within 2 min of its end (median), 45 of 48 within 15 min, as one event.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from monitor.core.detectors import base
from monitor.core.detectors.base import Condition
from monitor.core.vocabulary import TROUBLES, Kind

if TYPE_CHECKING:
    from collections.abc import Mapping

    from monitor.core.detectors.base import Bools, Bucket, Floats, Ints, State

CODE: Mapping[Kind, int] = {kind: code for code, kind in enumerate(TROUBLES, 1)}
COLLAPSE, TAIL, IMPROVEMENT = CODE["collapse"], CODE["tail_drop"], CODE["improvement"]
DEAD, SILENT = CODE["dead_draft"], CODE["speculation_silent"]

RECENT_KEPT = 0.9
"""Share of the recent sums that a bucket leaves: the last ten buckets."""

AFTER_KEPT = 0.995
"""The same of what is shown as the level after the change: the last 200."""

MIDWAY = 0.45
"""Share of the way back from which on a bucket speaks for being back: under a half, for what comes back
comes back nearly whole."""

APART = 0.8
"""Share of the whole move that the two hypotheses lie apart, so that a half-return proves nothing."""

NATS, MOST_NATS = 7.5, 4.0
"""Nats that prove a return, and how many one bucket may bring: two at least."""

CORRELATED = 3.0
"""Buckets that tell the same as one would if they were independent: requests outlive them."""

SCATTER_KEPT, WINSOR = 0.97, 6.0
"""Share of the scatter since the trouble began that a bucket leaves, and times it that one bucket counts
for."""

EARLY_BUCKETS, EARLY_KEPT = 8.0, 0.5
"""Buckets in which the size of a trouble is still being learnt, and the share of the first size that is
kept."""

FOLLOW = 0.01
"""How fast (gain a bucket) the size is followed later on: hours, as the day moves it."""

LEAST_KEPT = 0.7
"""Share of the first size that is never gone below by following."""

LEAST_BUCKETS = 4
"""Buckets before the size is followed at all."""

ADOPT_SECONDS, ADOPT_SLOW_SECONDS = 12 * 3600.0, 26 * 3600.0
"""Seconds with traffic after which an improvement is the baseline: a step, and one that came slowly. A
night's batch is half a day, a swing of the day a whole one."""

LONGEST_STEP_SECONDS = 900.0
"""Seconds that one bucket adds to how long a trouble lasted: a silence is no proof."""

DTYPE = np.dtype(
    [
        ("kind", "i8"),  # place in `TROUBLES` + 1, 0: none
        ("opened_at", "f8"),  # unix seconds
        ("change_at", "f8"),  # change point, unix seconds
        ("change_low", "f8"),  # its earliest, unix seconds
        ("change_high", "f8"),  # its latest, unix seconds
        ("score", "f8"),  # when it was told last, units of the limit
        ("detector", "i8"),  # place in `alarms.SEERS`
        ("positions", "i8"),  # bits: positions that fell
        ("channel", "i8"),  # score that follows it beside the level's: 0 the level's, 1 … 7 contrasts
        ("origin", "f8", 2),  # level and contrast where it began, logits
        ("shift", "f8", 2),  # how far both are from there, logits
        ("first_shift", "f8", 2),  # the same when it opened
        ("rhythm", "f8"),  # what the hour added when it began, logits
        ("last", "f4", 2),  # last bucket's `shift`, logits
        ("scatter", "f4", 2),  # variance between neighbouring buckets
        ("back", "f4", 2),  # evidence of being back, nats
        ("weight", "f4"),  # what `shift` counts for, buckets
        ("buckets", "f4"),  # buckets since it began
        ("recent", "f4", base.NUM_SUMS),  # of the last minutes, faded
        ("after", "f4", base.NUM_SUMS),  # since it began, faded
        ("lasted", "f4"),  # seconds with traffic
        ("muted", "f4"),  # 1: at a level it is known to fall to
    ],
)


def gather(state: State, sums: Floats) -> None:
    """Take full buckets into the sums of the last minutes, and into those since the open trouble began."""
    state["recent"] = state["recent"] * RECENT_KEPT + sums
    going_on = (state["kind"] > 0) & (state["back"].max(1) == 0.0)
    if going_on.any():
        state["after"] = np.where(going_on[:, None], state["after"] * AFTER_KEPT + sums, state["after"])


def recovered(state: State, bucket: Bucket, rhythm: Floats) -> Bools:
    """Follow the open troubles through full buckets and return the rows [B] that are proven over.

    rhythm [B]: what the hour of the day adds to the level.
    """
    row, channel = np.arange(len(bucket.score)), state["channel"]
    watched = (state["kind"] > 0) & (state["kind"] < DEAD)
    drift = rhythm - state["rhythm"]
    moved = np.stack([bucket.score[:, 0], bucket.score[row, channel]], 1) - state["origin"]
    moved -= np.stack([drift, np.where(channel == 0, drift, 0.0)], 1)
    model = np.stack([bucket.variance[:, 0], bucket.variance[row, channel]], 1)
    seen = state["buckets"][:, None]
    gain = np.maximum(1.0 / (seen + 1.0), 1.0 - SCATTER_KEPT)
    apart = np.minimum((moved - state["last"]) ** 2, WINSOR * np.maximum(model, state["scatter"]))
    scatter = state["scatter"] + gain * (apart * (seen > 0.0) - state["scatter"])
    shift = _followed(state, moved)
    noise = CORRELATED * np.maximum(model, scatter)
    # summed since the last sign that it goes on
    back = np.maximum(state["back"] + nats_of_return(shift, moved, noise), 0.0)
    open_ = watched[:, None]
    known = state["weight"][:, None] == EARLY_BUCKETS - 1.0
    first = np.where(known, shift, state["first_shift"])
    changed = {"last": moved, "scatter": scatter, "back": back, "shift": shift, "first_shift": first}
    for name, value in changed.items():
        state[name] = np.where(open_, value, state[name])
    state["buckets"] = np.where(watched, state["buckets"] + 1.0, 0.0)
    state["weight"] += watched
    _grow_older(state, bucket, watched)
    proven = (back >= NATS) | (state["first_shift"] == 0.0)
    over: Bools = watched & proven.all(1)
    return over


def nats_of_return(shift: Floats, moved: Floats, variance: Floats) -> Floats:
    """Return the log likelihood of being back against having `moved` by `shift`, of one bucket, in nats."""
    nats = APART * shift * (MIDWAY * shift - moved) / variance
    return base.clip(nats, -MOST_NATS, MOST_NATS)


def _followed(state: State, moved: Floats) -> Floats:
    """Return how far level and contrast have moved: what opened the trouble, then what was seen since."""
    first, weight = state["first_shift"], state["weight"][:, None]
    sign = np.sign(first)
    early = weight < EARLY_BUCKETS
    gain = np.where(early, 1.0 / (weight + 1.0), FOLLOW * (state["buckets"][:, None] >= LEAST_BUCKETS))
    shift = state["shift"] + gain * (moved - state["shift"])
    least = np.where(early, EARLY_KEPT, LEAST_KEPT) * np.abs(first)
    result: Floats = np.maximum(shift * sign, least) * sign
    return result


def _grow_older(state: State, bucket: Bucket, watched: Bools) -> None:
    step = base.clip(bucket.at - bucket.began_at, 0.0, LONGEST_STEP_SECONDS)
    state["lasted"] = np.where(watched, state["lasted"] + step, 0.0)


def lasting(state: State, slow: Bools) -> Bools:
    """Return the rows [B] whose improvement lasts so long, in time with traffic, that it is the usual level.

    A night's batch is no improvement for good, so a step must last half a day; one that came slowly
    (`slow` [B]), and could be a swing of the day, more than a day.
    """
    least = np.where(slow, ADOPT_SLOW_SECONDS, ADOPT_SECONDS)
    result: Bools = (state["kind"] == IMPROVEMENT) & (state["lasted"] >= least)
    return result


def conditions(state: State, warm: Bools) -> Ints:
    """Return the `Condition` codes [B]; what falls to a level that it is known to fall to is as ever."""
    kind = state["kind"] * (state["muted"] == 0.0)
    code = warm * int(Condition.OK)
    if not kind.any():
        return code
    code = np.where(kind > 0, int(Condition.DRIFTING), code)
    code = np.where(kind == IMPROVEMENT, int(Condition.IMPROVED), code)
    result: Ints = np.where((kind == COLLAPSE) | (kind == DEAD), int(Condition.COLLAPSED), code)
    return result
