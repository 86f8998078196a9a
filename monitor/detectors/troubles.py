"""What the detectors see of one stream becomes one trouble: opened, updated as it grows, closed on proof.

While a trouble is open the baseline is frozen. It closes when the level (or the contrast) that moved is
shown to be back near where it was, by a likelihood ratio with the same cap a bucket as the alarms have.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from monitor.detectors import base, reference
from monitor.detectors.base import Alarm, Condition, Level

if TYPE_CHECKING:
    from monitor.detectors.base import Action, Bools, Floats, Kind, Severity, State

KINDS: tuple[Kind | None, ...] = (
    None,
    "collapse",
    "drop",
    "tail_drop",
    "decay",
    "improvement",
    "dead_draft",
    "speculation_silent",
)
CODE = {kind: code for code, kind in enumerate(KINDS)}
IMPROVEMENT = CODE["improvement"]
DEAD, SILENT, TAIL, DECAY = CODE["dead_draft"], CODE["speculation_silent"], CODE["tail_drop"], CODE["decay"]
DETECTORS = ("level", "shape", "plunge", "floor", "trend")

RECENT_KEPT = 0.6
AFTER_KEPT = 0.99
RECOVERY_NATS = 5.0
STILL_DOWN = 0.6
CORRELATED = 2.0
ADOPT_SECONDS = 6 * 3600.0

_SUMS = [("trials", "f8", base.POSITIONS), ("successes", "f8", base.POSITIONS), ("drafts", "f8"), ("accepted", "f8")]
DTYPE = np.dtype(
    [
        ("kind", "i8"),
        ("opened_at", "f8"),
        ("change", "f8", 3),
        ("channel", "i8"),
        ("origin", "f8"),
        ("shift", "f8"),
        ("recovery", "f8"),
        ("score", "f8"),
        ("positions", "i8"),
        ("detector", "i8"),
        ("recent", "f8", 3),
        ("after", np.dtype(_SUMS)),
    ],
)


def follow(state: State, bucket: State, promised: Floats) -> Floats:
    """Take full buckets into the recent sums and return the share of MAL [B] that is missing now.

    `promised` [B] is what the baseline would have accepted of the bucket's drafts.
    """
    recent = state["recent"] * RECENT_KEPT
    recent[:, 0] += bucket["drafts"]
    recent[:, 1] += bucket["accepted"]
    recent[:, 2] += promised
    state["recent"] = recent
    after = state["after"]
    open_ = state["kind"] > 0
    for name in ("drafts", "accepted"):
        after[name] = np.where(open_, after[name] * AFTER_KEPT + bucket[name], 0.0)
    for name in ("trials", "successes"):
        after[name] = np.where(open_[:, None], after[name] * AFTER_KEPT + bucket[name], 0.0)
    missing: Floats = 1.0 - (recent[:, 0] + recent[:, 1]) / np.maximum(recent[:, 0] + recent[:, 2], 1e-9)
    return missing


def recovery(state: State, channels: Floats, variances: Floats) -> Bools:
    """Return in which rows [B] the open trouble is proven over; channels, variances [B, 8] of full buckets."""
    row = np.arange(len(channels))
    channel = state["channel"]
    moved = channels[row, channel] - state["origin"]
    still = STILL_DOWN * state["shift"]
    gain = (0.5 * still - moved) * still / (CORRELATED * variances[row, channel])
    gain = np.clip(gain, -0.5 * RECOVERY_NATS, 0.5 * RECOVERY_NATS + 0.01)
    total = np.maximum(state["recovery"] + gain, 0.0)
    watching = (state["kind"] > 0) & (state["kind"] < DEAD)
    state["recovery"] = np.where(watching, total, 0.0)
    over: Bools = watching & (total >= RECOVERY_NATS)
    return over


def conditions(state: State, warm: Bools) -> base.Ints:
    """Return the `Condition` codes [B]."""
    kind = state["kind"]
    code = np.where(warm, int(Condition.OK), int(Condition.WARMING))
    code = np.where(kind > 0, int(Condition.DRIFTING), code)
    code = np.where(kind == IMPROVEMENT, int(Condition.IMPROVED), code)
    result: base.Ints = np.where((kind == CODE["collapse"]) | (kind == DEAD), int(Condition.COLLAPSED), code)
    return result
