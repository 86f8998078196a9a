"""What was seen in a batch, and the alarms it makes of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from monitor.detectors import base, evidence, level, plunge, reference, scores, shape, troubles
from monitor.detectors.base import Alarm, Level

if TYPE_CHECKING:
    from monitor.detectors.base import Action, Bools, Floats, Ints, Kind, Severity, State


class Seen:
    """Scratch of one batch: what each detector saw, B rows; rows without a full bucket see nothing new."""

    def __init__(self, size: int, fell: Floats, fell_since: Floats, dead: Floats, alive: Floats, silent: Floats) -> None:
        self.fell, self.fell_since, self.dead, self.alive, self.silent = fell, fell_since, dead, alive, silent
        self.down = np.zeros(size)
        self.up = np.zeros(size)
        self.down_since = np.zeros(size)
        self.up_since = np.zeros(size)
        self.shape = np.zeros((size, shape.CONTRASTS, 2))
        self.missing = np.zeros(size)
        self.over = np.zeros(size, bool)
        self.score = np.zeros((size, base.POSITIONS))

    def take(self, rows, verdict, shifted, missing, over, score, seen, warm):
        self.down[rows] = verdict.down
        self.up[rows] = verdict.up
        self.down_since[rows] = verdict.down_since
        self.up_since[rows] = verdict.up_since
        self.shape[rows] = shifted
        self.missing[rows] = missing
        self.over[rows] = over
        self.score[rows] = score

    def score_down(self) -> Floats:
        return np.maximum(np.maximum(self.down, self.fell), np.maximum(self.shape.max((1, 2)), self.dead))

    def score_up(self) -> Floats:
        return self.up


def settle(plan: base.Plan, state: State, trials: evidence.Trials, rate: Floats, seen: Seen) -> list[Alarm]:
    shape_top = seen.shape.max((1, 2))
    trouble = state["trouble"]
    open_ = trouble["kind"] > 0
    strongest = np.maximum(np.maximum(seen.down, seen.fell), np.maximum(np.maximum(seen.up, shape_top), np.maximum(seen.dead, seen.silent)))
    hit = (strongest >= 1.0) | (open_ & (seen.over | (seen.alive >= 1.0) | (trials.drafts > 0)) & (trouble["kind"] >= 0) & (seen.over | (seen.alive >= 1.0) | (trouble["kind"] == troubles.SILENT)))
    out: list[Alarm] = []
    for row in np.flatnonzero(hit):
        r = int(row)
        out += _settle_row(plan, state, trials, rate, seen, r, shape_top)
    return out


def _settle_row(plan, state, trials, rate, seen, r, shape_top):
    trouble = state["trouble"]
    at = float(trials.at[r])
    kind = int(trouble["kind"][r])
    out = []
    if kind:
        name = troubles.KINDS[kind]
        done = seen.over[r]
        if kind == troubles.DEAD:
            done = seen.alive[r] >= 1.0
        if kind == troubles.SILENT:
            done = trials.drafts[r] > 0
        if done:
            out.append(_alarm(state, trials, rate, r, "close"))
            _restart(state, r)
            trouble["kind"][r] = 0
            return out
        if kind == troubles.IMPROVEMENT and seen.fell[r] >= 1.0:
            out.append(_alarm(state, trials, rate, r, "close"))
            trouble["kind"][r] = 0
            kind = 0
        elif kind not in (troubles.CODE["collapse"], troubles.DEAD, troubles.SILENT) and seen.fell[r] >= 1.0 and seen.missing[r] >= plan.collapse_ratio:
            trouble["kind"][r] = troubles.CODE["collapse"]
            trouble["channel"][r] = 0
            trouble["shift"][r] = min(trouble["shift"][r], seen.score[r, 0] - trouble["origin"][r])
            out.append(_alarm(state, trials, rate, r, "update"))
            return out
        else:
            return out
    missing = seen.missing[r]
    channel = 0
    positions = 0xFF
    if seen.dead[r] >= 1.0 and seen.fell[r] < 1.0:
        kind, score, since, det = "dead_draft", seen.dead[r], state["floor"]["since"][r], "floor"
    elif seen.fell[r] >= 1.0:
        kind, score, since, det = "drop", seen.fell[r], seen.fell_since[r], "plunge"
    elif seen.down[r] >= 1.0:
        kind, score, since, det = "drop", seen.down[r], seen.down_since[r], "level"
    elif shape_top[r] >= 1.0:
        c, d = np.unravel_index(int(seen.shape[r].argmax()), seen.shape[r].shape)
        score, det = shape_top[r], "shape"
        since = shape.since(state["shape"], r, int(c), int(d))
        channel = int(c) + 1
        if d == 0:
            kind = "tail_drop"
            positions = (0xFF << channel) & 0xFF
        else:
            kind = "drop"
            positions = (1 << channel) - 1
    elif seen.up[r] >= 1.0:
        kind, score, since, det = "improvement", seen.up[r], seen.up_since[r], "level"
    elif seen.silent[r] >= 1.0:
        kind, score, since, det = "speculation_silent", seen.silent[r], state["floor"]["silent_since"][r], "floor"
    else:
        return out
    if kind == "drop" and missing >= plan.collapse_ratio:
        kind = "collapse"
    local = state["baseline"]["local"]
    known = state["baseline"]["trials"][r : r + 1] >= 300
    s = scores.against(local["trials"][r : r + 1], local["successes"][r : r + 1], rate[r : r + 1], known)
    origin = np.concatenate([s.level, s.contrast[0]])
    now = seen.score[r]
    trouble["kind"][r] = troubles.CODE[kind]
    trouble["opened_at"][r] = at
    trouble["change"][r] = (since, since, at)
    trouble["channel"][r] = channel
    trouble["origin"][r] = origin[channel]
    shift = now[channel] - origin[channel]
    if kind == "improvement":
        shift = max(shift, 0.2)
    elif channel == 0:
        shift = min(shift, -0.2)
    trouble["shift"][r] = shift
    trouble["recovery"][r] = 0.0
    trouble["score"][r] = score
    trouble["positions"][r] = positions
    trouble["detector"][r] = troubles.DETECTORS.index(det)
    a = trouble["after"][r]
    a["trials"] = state["bucket"]["trials"][r]
    a["successes"] = state["bucket"]["successes"][r]
    a["drafts"] = state["bucket"]["drafts"][r]
    a["accepted"] = state["bucket"]["accepted"][r]
    out.append(_alarm(state, trials, rate, r, "open"))
    return out


def _restart(state, r):
    rows = np.arange(len(state)) == r
    level.restart(state["level"], rows)
    shape.restart(state["shape"], rows)
    plunge.restart(state["plunge"], rows)


def _level_of(sums, r) -> Level:
    d, a = float(sums["drafts"][r]), float(sums["accepted"][r])
    if d <= 0:
        return Level(float("nan"), float("nan"), float("nan"), (), 0.0)
    mal = 1 + a / d
    n, x = sums["trials"][r], sums["successes"][r]
    cond = tuple(float(v / w) for v, w in zip(x, n) if w > 0)
    return Level(mal, mal, mal, cond, d)


def _alarm(state, trials, rate, r, action) -> Alarm:
    t = state["trouble"]
    kind = troubles.KINDS[int(t["kind"][r])]
    severity = {"collapse": "critical", "dead_draft": "critical", "improvement": "info"}.get(kind, "warning")
    mask = int(t["positions"][r])
    pos = tuple(j for j in range(int(min(8, max(1, trials.drafted[r])))) if mask >> j & 1)
    return Alarm(
        r, kind, severity, action, float(t["change"][r, 0]), float(t["change"][r, 1]), float(t["change"][r, 2]), float(trials.at[r]),
        pos, _level_of(state["baseline"]["local"], r), _level_of(t["after"], r), float(t["score"][r]), troubles.DETECTORS[int(t["detector"][r])],
    )


def regime_note(state, trials, r) -> Alarm:
    at = float(trials.at[r])
    return Alarm(r, "regime_change", "info", "note", at, at, at, at, (), _level_of(state["baseline"]["local"], r), _level_of(state["bucket"], r), 0.0, "regime")
