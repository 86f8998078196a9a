"""What the traffic explains: prompt lengths, batch size and cache hits that moved, and acceptance with them.

Three figures are read from the counters of full buckets, where the page has them: ln of the mean prompt
length of finished requests, ln of the mean batch (outputs ÷ steps), share of prompt tokens found in the
cache. Each has a rhythm of its day as the level has one (`rhythm`), and x is what it deviates from that:
what is as usual at this hour explains nothing. What x does to the level (θ, logits) is learnt from blocks of
five minutes by recursive least squares with a prior at 0, little while the day is not known, never from a
fall that stays; from a trouble that passed within `PASSING_SECONDS` it is learnt once that is over.
Explained is

    e = sign(x·θ) · min(max(|x·θ| - `ERRORS` · error of x·θ, 0), `MOST`),

with x cut at `REACH` times its usual size, and 0 from `NEVER` times on: what was never seen explains nothing.
e only takes from what the level deviates from the last hour (`level`) or from the rhythm (`trend`), never
more than that, so it makes no evidence; `plunge`, `floor` and `shape` do not ask for it.

The figures trail: prompt lengths are known when requests finish, and few requests are averaged with those
before. A mix that changes within a minute may be seen as a drop before it is explained. The batch grows by
itself when acceptance falls; the prior keeps the little that would explain small. What no counter tells
(language, temperature, tools) is not explained.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from monitor.core.detectors import base
from monitor.core.detectors.measures import rhythm
from monitor.core.pages.engines.base import Counter

if TYPE_CHECKING:
    from monitor.core.detectors.base import Bools, Floats, State

FIGURES = 3
"""How many figures of the traffic are watched: prompt length, batch, cache hits."""

PRIOR_SD = np.array([0.3, 0.3, 0.8])
"""Logits that acceptance may move by (standard deviations) for a prompt or a batch e times as long, and
from no cache hit to all, before it was seen."""

DAILY_SD = np.array([0.02, 0.02, 0.05])
"""Logits by which each of these may change from day to day."""

# what a fall of acceptance moves by itself may not be learnt from a trouble
ELSEWHERE = np.array([1.0, 0.0, 1.0])
ERRORS = 1.0
"""Standard errors that are taken off before anything is explained: in doubt it is not."""

REACH, NEVER = 2.0, 3.0
"""Times its usual size up to which a deviation explains in proportion (REACH), and from which on nothing
(NEVER)."""

MOST = 0.5
"""Logits that traffic explains at most: no collapse is explained away."""

LEAST_SQUARE = 0.05**2
"""Square of the size that any figure deviates by: 5 % of prompt length is no news."""

ENOUGH = np.array([60.0, 100.0, 30_000.0])
"""Finished requests, engine steps and cache queries (tokens) over which a figure is a mean."""

LEAST = 0.25 * ENOUGH
"""Of these, how many a figure needs to be told at all."""

PASSING_SECONDS = 3 * 3600.0
"""Seconds that a trouble may last and still be something that passed by itself."""

MEMORY_SECONDS = 7 * 86400.0
"""Seconds over which the usual size of deviations is remembered: a week."""

LOCAL_SECONDS = 3600.0
"""Seconds (e-folding) over which what traffic usually explains is averaged, as the local level is."""

LONGEST_SECONDS = 300.0
"""Seconds that one bucket counts for at most: a bucket after a silence is no half hour of traffic."""

_PARTS = [Counter.PROMPT_TOKENS, Counter.DECODE_OUTPUTS, Counter.CACHE_HITS]
_WHOLES = [Counter.FINISHED_REQUESTS, Counter.ENGINE_STEPS, Counter.CACHE_QUERIES]
_COLUMNS = np.array([*_PARTS, *_WHOLES])
_SHARE = np.array([False, False, True])
_DAILY = np.diag(DAILY_SD**2)
"""`DAILY_SD` as a covariance."""

DTYPE = np.dtype(
    [
        ("sums", "f4", (2, FIGURES)),  # numerators, denominators since the last bucket
        ("recent", "f4", (2, FIGURES)),  # numerators, denominators, faded by themselves
        ("origin", "f4", FIGURES),  # the figures at first sight: log lengths, share of cache hits
        ("day", "f4", (FIGURES, rhythm.TERMS)),  # their rhythm: terms of the day
        ("square", "f4", FIGURES),  # variance of their deviation
        ("seen", "f4", FIGURES),  # seconds that it was learnt from
        ("deviation", "f4", FIGURES),  # of the last bucket from what is usual
        ("effect", "f4", FIGURES),  # logits a unit of deviation
        ("covariance", "f4", (FIGURES, FIGURES)),  # of `effect`
        ("explained", "f4"),  # of the last bucket, logits
        ("usual", "f4"),  # `explained` as a mean over the last hours
    ],
)


def allocate(state: State) -> None:
    """Set fresh rows to what is assumed before anything was learnt."""
    state["covariance"] = np.diag(PRIOR_SD**2)


def gather(state: State, values: Floats) -> None:
    """Add the counters [B, C] of intervals to what came since the last full bucket."""
    told = values.take(_COLUMNS, 1)
    known = ~np.isnan(told)
    if known.any():
        pairs = told.reshape(-1, 2, FIGURES)
        both = known[:, :FIGURES] & known[:, FIGURES:]
        state["sums"] += np.where(both[:, None], pairs, 0.0)


def measure(state: State, times: Floats, began_at: Floats, use: Bools) -> Floats:
    """Return how many logits [B] traffic explains in full buckets; rows tell what is usual where `use`."""
    sums = state["sums"]
    if not (sums.any() or state["recent"].any()):
        return np.zeros(len(times))
    kept = np.maximum(1.0 - sums[:, 1] / ENOUGH, 0.0)[:, None]
    recent = state["recent"] * kept + sums
    state["recent"], state["sums"] = recent, 0.0
    told = (recent[:, 1] >= LEAST) & ((recent[:, 0] > 0.0) | _SHARE)
    ratio = recent[:, 0] / np.maximum(recent[:, 1], 1e-9)
    figure = np.where(_SHARE, ratio, np.log(np.maximum(ratio, 1e-9)))
    state["origin"] = np.where((state["seen"] == 0.0) & told, figure, state["origin"])
    daily = (state["day"] * rhythm.of_day(times)[:, None, :]).sum(2)
    deviation = np.where(told, figure - state["origin"] - daily, 0.0)
    seconds = base.clip(times - began_at, 1.0, LONGEST_SECONDS)
    state["deviation"] = deviation
    usual = np.sqrt(4.0 * state["square"] + LEAST_SQUARE)
    _widen(state, base.clip(deviation, -usual, usual), (told & use[:, None]) * seconds[:, None])
    explained = sure(state, deviation)
    state["usual"] += (1.0 - np.exp(-seconds / LOCAL_SECONDS)) * (explained - state["usual"])
    state["explained"] = explained
    return explained


def sure(state: State, deviation: Floats) -> Floats:
    """Return how many logits [B] of level deviations [B, 3] explain for sure."""
    cut = _familiar(state, deviation)
    likely = (cut * state["effect"]).sum(1)
    error = np.sqrt(np.maximum((cut * (state["covariance"] * cut[:, None, :]).sum(2)).sum(1), 0.0))
    result: Floats = np.sign(likely) * base.clip(np.abs(likely) - ERRORS * error, 0.0, MOST)
    return result


def _familiar(state: State, deviation: Floats) -> Floats:
    """Return deviations [B, 3] cut at what is usual for them; what was never seen is 0."""
    reach = np.maximum(REACH * np.sqrt(state["square"]), 1e-9)
    strange = np.abs(deviation) / reach
    result: Floats = base.clip(deviation, -reach, reach) * base.clip(
        (NEVER - REACH * strange) / (NEVER - REACH), 0.0, 1.0
    )
    return result


def left(score: Floats, explained: Floats, around: Floats) -> Floats:
    """Return scores less what is explained of how they deviate from where they were (`around`)."""
    away = score - around
    result: Floats = score - base.clip(explained, np.minimum(away, 0.0), np.maximum(away, 0.0))
    return result


def learn(
    state: State, deviation: Floats, surprise: Floats, error: Floats, gain: Floats, days: Floats
) -> None:
    """Learn from blocks what the figures usually are and what their deviations [B, 3] did to the level.

    surprise [B]: what the rhythm did not expect, error [B] its variance; gain [B, 5]: how far it followed.
    """
    if not deviation.any():
        return
    state["day"] += deviation[:, :, None] * gain[:, None, :]
    _fit(state, _familiar(state, deviation), surprise, error, days > 0.0)
    # what no block tells of stays as it was
    state["covariance"] += ((deviation != 0.0).any(1) * days)[:, None, None] * _DAILY


def learn_passed(state: State, deviation: Floats, surprise: Floats, error: Floats, seconds: Floats) -> None:
    """Learn what deviations [B, 3] did while a trouble lasted for `seconds` [B] that is over by itself."""
    use = (seconds > 0.0) & (seconds <= PASSING_SECONDS)
    _widen(state, deviation, ((deviation != 0.0) & use[:, None]) * seconds[:, None])
    _fit(state, deviation * ELSEWHERE, surprise, error, use)


def _fit(state: State, deviation: Floats, surprise: Floats, error: Floats, use: Bools) -> None:
    spreading = (state["covariance"] * deviation[:, None, :]).sum(2)
    gain = spreading * (use / (error + (spreading * deviation).sum(1)))[:, None]
    state["effect"] += gain * (surprise - (deviation * state["effect"]).sum(1))[:, None]
    state["covariance"] -= gain[:, :, None] * spreading[:, None, :]


def _widen(state: State, deviation: Floats, seconds: Floats) -> None:
    """Take deviations [B, 3] that lasted so many seconds each into their usual size."""
    seen = state["seen"] + seconds
    state["square"] += seconds / np.maximum(seen, 1.0) * (deviation * deviation - state["square"])
    state["seen"] = np.minimum(seen, MEMORY_SECONDS)
