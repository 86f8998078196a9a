"""The records that go into and come out of the detectors.

A detector is a function over rows: it reads what happened in an interval, changes its own columns of the
state in place and says how near it is to its limit. What it found becomes an `Alarm` only in `alarms`,
where several detectors that see one change make one trouble.
"""

from __future__ import annotations

import itertools
import math
import operator
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Literal

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    from monitor.core.vocabulary import Kind, Severity

    Floats = npt.NDArray[np.float64]
    Bools = npt.NDArray[np.bool_]
    Ints = npt.NDArray[np.int64]
    Indices = npt.NDArray[np.intp]
    State = npt.NDArray[np.void]

POSITIONS = 8
"""Positions that are watched: the first seven one by one, all later ones together as the eighth."""

TRIALS, SUCCESSES = slice(0, POSITIONS), slice(POSITIONS, 2 * POSITIONS)
"""Columns of the sums: slices of trials and successes by position."""

DRAFTS, ACCEPTED, TOKENS = 16, 17, 18
"""Columns of the sums after those of the positions: drafts, accepted and draft tokens."""

POOLED = 1.001
"""Share of what eight positions keep from which on more than eight were drafted; less is rounding."""

NUM_SUMS = 19
"""Columns of all sums: trials and successes of the eight positions, drafts, accepted and draft tokens."""

MONTH_SECONDS = 30 * 86400.0
"""Seconds of the month in which false alarms are counted: thirty days."""

SCRAPE_SECONDS = 15.0
"""Seconds of the interval that false alarms are reckoned for: Prometheus's usual one; shorter ones are
gathered into buckets, longer ones make fewer chances."""

FAR_DOWN = -1.2
"""Logits of fall from which on fewer buckets convince: no request mix in the simulations goes there."""

LARGEST_SHARE = 0.65
"""Share of a limit that one bucket may be worth: under 1, so that one torn page alarms nobody, two buckets
do."""

Action = Literal["open", "update", "close", "note"]


class Condition(IntEnum):
    """How a stream's acceptance stands against its baseline, latched until a recovery is proven."""

    WARMING = 0
    OK = 1
    DRIFTING = 2
    COLLAPSED = 3
    IMPROVED = 4


@dataclass(frozen=True, slots=True)
class DetectionPlan:
    """What the user asks of the detectors.

    `false_alarms_per_month` is per stream and counts every alarm of severity critical or warning.
    `floor_mal` is the mean acceptance length under which a draft is dead whatever its baseline;
    `collapse_ratio` the share of the baseline's MAL that must be lost for a fall to be a collapse.
    `silent_seconds` is how long tokens must flow without a draft before speculation is called silent.
    """

    false_alarms_per_month: float = 1.0
    floor_mal: float = 1.1
    collapse_ratio: float = 0.25
    silent_seconds: float = 120.0


@dataclass(frozen=True, slots=True)
class Level:
    """An acceptance level with the evidence behind it; NaN and () where unknown."""

    mal: float
    mal_low: float
    mal_high: float
    conditional: tuple[float, ...]
    drafts: float


UNKNOWN_LEVEL = Level(math.nan, math.nan, math.nan, (), 0.0)
"""The level of what was never seen."""


@dataclass(frozen=True, slots=True)
class Alarm:
    """Something that opened, grew or closed in row `index` of the batch.

    `change_point_at` (unix seconds) lies in [`change_point_low`, `change_point_high`] and is never after
    `raised_at`. `positions` are the draft positions that moved (0 first). A "note" is opened and closed
    at once. `score` is in units of the limit. `explained` is how many logits traffic explains of a move of
    the level, `unexplained` the rest, which was judged. `fact` is what else there is to say.
    """

    index: int
    kind: Kind
    severity: Severity
    action: Action
    change_point_at: float
    change_point_low: float
    change_point_high: float
    raised_at: float
    positions: tuple[int, ...]
    before: Level
    after: Level
    score: float
    detector: str
    explained: float = 0.0
    unexplained: float = 0.0
    fact: str = ""


def regime_note(
    row: int, began: float, now: float, levels: tuple[Level, Level], detector: str, fact: str = ""
) -> Alarm:
    """Return the note that what is served changed at `began`, told at `now`; `levels` before and after."""
    before, after = levels
    return Alarm(
        index=row,
        kind="regime_change",
        severity="info",
        action="note",
        change_point_at=began,
        change_point_low=began,
        change_point_high=began,
        raised_at=now,
        positions=(),
        before=before,
        after=after,
        score=0.0,
        detector=detector,
        fact=fact,
    )


@dataclass(frozen=True, slots=True)
class Findings:
    """What the detectors say of the B rows of a batch.

    Scores are in units of the limit: 1.0 alarms. `baseline_mal` [B] and `baseline_conditional` [B, 8] are
    NaN while unknown. `condition` [B] holds `Condition` codes.
    """

    score_down: Floats
    score_up: Floats
    baseline_mal: Floats
    baseline_conditional: Floats
    condition: Ints
    alarms: tuple[Alarm, ...]


@dataclass(frozen=True, slots=True)
class Bucket:
    """Full buckets against the baseline, B rows.

    at, began_at: when each ends and began (unix seconds); age: of the stream's baseline (seconds);
    score, variance [B, 8]: the shift in logit of the level and of the seven contrasts, and what they vary
    by while nothing is wrong; usable [B, 8]: there is evidence enough for a score.
    """

    at: Floats
    began_at: Floats
    age: Floats
    score: Floats
    information: Floats
    variance: Floats
    usable: Bools


@dataclass(frozen=True, slots=True)
class Verdict:
    """A detector's word on B rows: scores in units of its limit and when the change it sees began.

    calm [B]: nothing is seen that might be a change, on duty or not.
    """

    down: Floats
    up: Floats
    down_since: Floats
    up_since: Floats
    calm: Bools


def nats(plan: DetectionPlan) -> float:
    """Return the evidence, in nats, that chance reaches in one bucket as rarely as the plan allows alarms."""
    return math.log(MONTH_SECONDS / SCRAPE_SECONDS / plan.false_alarms_per_month)


def bucket_share(variance: Floats, score: Floats) -> Floats:
    """Return the share of a limit that one bucket may contribute: never all, less where few requests made it.

    The variance of the level tells how few: 0.25 is about one request at a time. Where the level is far
    down, fewer buckets convince.
    """
    far, near = clip(0.018 / variance, 0.07, LARGEST_SHARE), clip(0.014 / variance, 0.05, LARGEST_SHARE)
    result: Floats = np.where(score < FAR_DOWN, far, near)
    return result


def clip(values: Floats, least: float | Floats, most: float | Floats) -> Floats:
    """Return `values` between two bounds; on the few values of one stream np.clip itself takes longer."""
    result: Floats = np.minimum(np.maximum(values, least), most)
    return result


def comparable(before: Level, after: Level) -> tuple[Level, Level]:
    """Return two levels over the positions that both have: with another k, a MAL is another by itself."""
    alone = _alone(before), _alone(after)
    lengths = {*alone, len(before.conditional), len(after.conditional)}
    if len(lengths) == 1 or min(lengths) == 0:
        return before, after
    return _first(before, min(alone)), _first(after, min(alone))


def _alone(level: Level) -> int:
    """Return how many positions a level has one by one; with k above eight, the eighth is of all later."""
    told = len(level.conditional)
    kept = sum(itertools.accumulate(level.conditional, operator.mul))
    return told - (told == POSITIONS and level.mal - 1.0 > kept * POOLED)


def _first(level: Level, positions: int) -> Level:
    """Return a level as drafts of its first `positions` would have it, its interval as wide in proportion."""
    kept = level.conditional[:positions]
    mal = 1.0 + sum(itertools.accumulate(kept, operator.mul))
    narrower = (mal - 1.0) / (level.mal - 1.0) if level.mal > 1.0 else 1.0
    below, above = (level.mal - level.mal_low) * narrower, (level.mal_high - level.mal) * narrower
    return Level(mal, mal - below, mal + above, kept, level.drafts)
