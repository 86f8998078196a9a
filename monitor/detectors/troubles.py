"""One open trouble a stream: what was seen of it, how it goes on, and the proof that it is over.

While a trouble is open the baseline is frozen. What moved (the level, or one contrast) is followed from
bucket to bucket; the trouble closes when it is shown to be back near where it came from: closer to its
origin than to what it had fallen to, by several errors. The errors count few requests, the wander of the
traffic, and how unsteady the stream is since the trouble began. An improvement is over, too, when it has
lasted for `ADOPT_SECONDS`: what was seen since is then the baseline. A fall never is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from monitor.detectors import base
from monitor.detectors.base import Condition

if TYPE_CHECKING:
    from monitor.detectors.base import Bools, Bucket, Floats, Ints, Kind, State

KINDS: tuple[Kind, ...] = (
    "collapse",
    "drop",
    "tail_drop",
    "decay",
    "improvement",
    "dead_draft",
    "speculation_silent",
)
CODE: dict[Kind, int] = {kind: code for code, kind in enumerate(KINDS, 1)}
COLLAPSE, TAIL, IMPROVEMENT = CODE["collapse"], CODE["tail_drop"], CODE["improvement"]
DEAD, SILENT = CODE["dead_draft"], CODE["speculation_silent"]

RECENT_KEPT = 0.9
AFTER_KEPT = 0.995
WINDOW_KEPT = 0.975
BACK = 0.35
ERRORS = 1.0
QUICK_BACK = 0.6
QUICK_ERRORS = 3.5
QUICK_BUCKETS = 2
LEAST_BUCKETS = 4
CORRELATED = 2.0
SCATTER_KEPT = 0.97
FOLLOW = 0.01
LEAST_KEPT = 0.7
RISE_SCORE, RISE_SHARE = 0.75, 0.5
ADOPT_SECONDS, ADOPT_SLOW_SECONDS = 12 * 3600.0, 26 * 3600.0
LONGEST_STEP_SECONDS = 900.0

DTYPE = np.dtype(
    [
        ("kind", "i8"),
        ("opened_at", "f8"),
        ("change_at", "f8"),
        ("change_low", "f8"),
        ("change_high", "f8"),
        ("score", "f8"),
        ("detector", "i8"),
        ("positions", "i8"),
        ("channel", "i8"),
        ("origin", "f8", 2),
        ("shift", "f8", 2),
        ("first_shift", "f8", 2),
        ("rhythm", "f8"),
        ("window", "f8", (2, 2)),
        ("scatter", "f8", 2),
        ("buckets", "f8"),
        ("streak", "f8"),
        ("recent", "f8", base.NUM_SUMS),
        ("after", "f8", base.NUM_SUMS),
        ("lasted", "f4"),
    ],
)


def gather(state: State, sums: Floats) -> None:
    """Take full buckets into the sums of the last minutes, and into those since the open trouble began."""
    state["recent"] = state["recent"] * RECENT_KEPT + sums
    going_on = (state["kind"] > 0) & (state["streak"] == 0.0)
    if going_on.any():
        state["after"] = np.where(going_on[:, None], state["after"] * AFTER_KEPT + sums, state["after"])


def recovered(state: State, bucket: Bucket, wander: Floats, rhythm: Floats) -> Bools:
    """Follow the open troubles through full buckets and return the rows [B] that are proven over.

    wander [B]: variance of the level's own wander; rhythm [B]: what the hour of the day adds to the level.
    """
    score, variance = bucket.score, bucket.variance
    row = np.arange(len(score))
    channel = state["channel"]
    watched = (state["kind"] > 0) & (state["kind"] < DEAD)
    moved = np.stack([score[:, 0], score[row, channel]], 1) - state["origin"]
    moved -= np.stack([rhythm - state["rhythm"], np.where(channel == 0, rhythm - state["rhythm"], 0.0)], 1)
    model = CORRELATED * np.stack([variance[:, 0], variance[row, channel]], 1)
    window = state["window"]
    mean = window[:, :, 1] / np.maximum(window[:, :, 0], 1e-9)
    seen = state["buckets"]
    scatter = np.where(
        (seen > 0.0)[:, None],
        state["scatter"] * SCATTER_KEPT + (1.0 - SCATTER_KEPT) * (moved - mean) ** 2,
        0.0,
    )
    noise = np.maximum(model, CORRELATED * scatter)
    window = window * WINDOW_KEPT
    window[:, :, 0] += 1.0 / noise
    window[:, :, 1] += moved / noise
    mean = window[:, :, 1] / window[:, :, 0]
    error = np.sqrt(1.0 / window[:, :, 0])
    shift, first = state["shift"], state["first_shift"]
    sign = np.sign(first)
    followed = shift + FOLLOW * (mean - shift) * (seen >= LEAST_BUCKETS)[:, None]
    shift = np.maximum(followed * sign, LEAST_KEPT * np.abs(first)) * sign
    lasting = np.stack([wander, np.where(channel == 0, wander, 0.0)], 1)
    unmoved = first == 0.0
    back = unmoved | ((BACK * shift - mean) * sign > ERRORS * error)
    quick = unmoved | ((QUICK_BACK * shift - moved) * sign > QUICK_ERRORS * np.sqrt(model + lasting))
    streak = np.where(quick.all(1), state["streak"] + 1.0, 0.0)
    open_ = watched[:, None]
    state["window"] = np.where(open_[..., None], window, 0.0)
    state["scatter"] = np.where(open_, scatter, 0.0)
    state["shift"] = np.where(open_, shift, state["shift"])
    state["buckets"] = np.where(watched, seen + 1.0, 0.0)
    state["streak"] = np.where(watched, streak, 0.0)
    _grow_older(state, bucket, watched)
    over: Bools = watched & ((back.all(1) & (seen >= LEAST_BUCKETS)) | (streak >= QUICK_BUCKETS))
    return over


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
    """Return the `Condition` codes [B]."""
    kind = state["kind"]
    code = warm * int(Condition.OK)
    if not kind.any():
        return code
    code = np.where(kind > 0, int(Condition.DRIFTING), code)
    code = np.where(kind == IMPROVEMENT, int(Condition.IMPROVED), code)
    result: Ints = np.where((kind == COLLAPSE) | (kind == DEAD), int(Condition.COLLAPSED), code)
    return result
