"""`trend`: the last minutes to hours lie below what this hour of the day and week has always been.

Blocks of five minutes are compared with the rhythm of day and week (`rhythm`). Of the residuals r, weighted
by the requests behind them, means over the last 15, 45 and 150 minutes, less what traffic explains of them
(`traffic`), are divided by their error

    z = mean / √(noise of few requests + wander · 1/(1 + window/2 h) + what is not known of the rhythm)

and |z| is held against √(2 · nats). Noise is learnt from how neighbouring blocks differ, wander from how far
an hour strays from the rhythm; both start from priors (`WANDER_PRIOR` 0.07² logits²). In the first day, when
the rhythm would take any slide for the hour of the day, a fall is held against where the stream began, too,
with an error of `rhythm.FIRST_DAY_SD` and less in its first hours: deeper than a day swings.

Finds slow decay, and drops too small for their first minutes to show. Needs about a day to be sharp. Cannot
tell a decay from traffic that changed for good and that no counter tells, nor, in the first day, a slide of
less than 1.1 logits from the hour of the day. Always a warning first; a collapse once it lasts so low.

Measured (`make bench-detection`; found and in the median): a slide of 0.65 logits in 4 h `ramp-4h`
100 % in 119 min, of 0.5 in 8 h `ramp-8h` 100 % in 4.7 h; MAL 3.4 → 2.9 at 8 slots `partial-medium`
96 % in 24 min, at about one request at a time `partial-low` 88 % in 111 min. By other measurements: a
slide of 1.5 logits in the first 6 h of a stream's life found after 280 min, 88 %. False alarms: 0.2 a
month; with weekends of ±0.2 logits one in the first week of nine streams, 0.5 a month from the second
week on, of all detectors (without what is known of the week: 7 and 3.8).

Roberts, Control chart tests based on geometric moving averages, Technometrics 1959.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from monitor.core.detectors import base
from monitor.core.detectors.measures import evidence, reference, rhythm, scores, traffic

if TYPE_CHECKING:
    from monitor.core.detectors.base import Bools, Floats, State

NAME = "trend"

BLOCK_SECONDS = 290.0
"""Seconds of a block at least: five minutes, less what scrapes are late."""

START_BLOCKS = 8
"""Blocks before anything else is told: the shortest window twice, and what is young."""

WINDOWS = np.array([900.0, 2700.0, 9000.0])
"""Seconds (e-folding) of the means: a drop too small for its first minutes, a slide of an hour, one of
many."""

WANDER_PRIOR = 0.07**2
"""Variance (logits²) of how far an hour strays from the rhythm, before it was learnt: the simulations'
drift."""

WANDER_LEAST = 0.035**2
"""The least that is believed of it: half as far."""

WANDER_BLOCKS = 144.0
"""Blocks that the prior is worth: half a day."""

WANDER_MEMORY = 1440.0
"""Blocks over which it is learnt: five days."""

DAY_BLOCKS = 288.0
"""Blocks of the first day, in which the level is held against its begin, too (`rhythm.FIRST_DAY_SD`)."""

YOUNG_BLOCKS = 3
"""Blocks that a stream begins with, a quarter of an hour; after it a fall from there is told."""

YOUNG_MARGIN = 1.15
"""By how much a fall from the begin exceeds the limit: requests that last longer than a block tell less
than it seems (1.05 was seen of requests of eight minutes)."""

LEFT_OUT, LEARNT_BLOCKS = 0.24, 864.0
"""Share of the variance that calm hours leave out, and the blocks (three days) in which it is made up for."""

SPREAD_PRIOR = 120.0
"""Variance of a block over that of counting, before it was learnt: few long requests."""

SPREAD_BLOCKS = 6.0
"""Blocks that this prior is worth."""

SPREAD_MEMORY = 600.0
"""Blocks over which the spread is learnt: two days."""

WINSOR = 10.0
"""Times the spread that one difference of neighbours counts for in learning it."""

LEAST_SHARE_VARIANCE = 0.002
"""Variance (logits²) added to a block's in weighting it: many drafts are still one five minutes."""

NOISE_SHARE = 1.3
"""Times that the variance of few requests counts: its estimate is short where they span blocks."""

LARGEST_NOISE = 0.09**2
"""Variance (logits²) of few requests beyond which a window tells nothing."""

LARGEST_SCORE = 1.5
"""Logits that one block may be off by: far falls are others' affair."""

LEVEL_VARIANCE = 0.05**2
"""Variance (logits²) of a new usual level that an improvement brought."""

EXTRA_NATS = -7.25
"""Nats on top of the plan's: negative, for three windows that overlap look rarely anew (measured)."""

CALM = 0.6
"""Share of the limit above which an hour teaches nothing of the wander."""

_SHRINK = 1.0 / (1.0 + WINDOWS / rhythm.WANDER_SECONDS)
"""How much of the wander's variance is left in the mean over each window."""

_AUTOCORRELATION = 2.0 * rhythm.WANDER_SECONDS / rhythm.BLOCK_SECONDS
"""Blocks that tell the same of the wander as one would if it did not last."""

DTYPE = np.dtype(
    [
        ("sums", "f4", base.NUM_SUMS),  # of the block under way, columns as in `base`
        ("began_at", "f8"),  # of the block, unix seconds
        ("rate", "f4", base.POSITIONS),  # conditional acceptance where the stream began, 0: unknown
        ("rhythm", rhythm.DTYPE),
        ("traffic", "f4", traffic.FIGURES),  # deviations × drafts, summed over the block
        ("blocks", "f4"),  # blocks seen
        ("weight", "f4", len(WINDOWS)),  # of the blocks in each window, faded
        ("sum", "f4", len(WINDOWS)),  # weighted residuals, logits
        ("explained", "f4", len(WINDOWS)),  # what traffic explains of them, logits
        ("noise", "f4", len(WINDOWS)),  # weighted variance of few requests
        ("last_at", "f8"),  # end of the last block, unix seconds
        ("last", "f4"),  # its residual, logits
        ("last_information", "f4"),  # its information; 0: it took no part
        ("spread", "f4"),  # variance of a block over binomial variance
        ("wander", "f4"),  # variance of an hour about the rhythm, logits²
        ("shift", "f4"),  # how far the level moved, by the window that shows it, logits
        ("expected", "f4"),  # what the rhythm expected of the last block, logits
        ("down_since", "f8"),  # of a fall, unix seconds
        ("up_since", "f8"),  # of a rise, unix seconds
        ("passing", "f4", traffic.FIGURES + 2),  # sums while a trouble is open: deviations, residuals, blocks
    ],
)


def allocate(state: State) -> None:
    """Set fresh rows to what is assumed before anything was learnt."""
    rhythm.allocate(state["rhythm"])
    state["spread"] = SPREAD_PRIOR
    state["wander"] = WANDER_PRIOR


def restart(state: State) -> None:
    """Forget the recent windows and the block at hand; the rhythm stays."""
    for name in ("sums", "traffic", "weight", "sum", "explained", "noise", "last_information", "passing"):
        state[name] = 0.0


def forget(state: State, positions_kept: Floats) -> None:
    """Drop the reference of the positions from `positions_kept` [B] on and the block at hand."""
    state["rate"] *= positions_kept[:, None] > np.arange(base.POSITIONS)
    state["sums"] = 0.0
    state["traffic"] = 0.0


def rebase(state: State, row: int) -> None:
    """Take where the level was since the open trouble began for the usual one."""
    one = state[row : row + 1]
    blocks = np.maximum(one["passing"][:, -1], 1.0)
    rhythm.rebase(one["rhythm"], one["passing"][:, traffic.FIGURES] / blocks, LEVEL_VARIANCE)
    restart(one)


def gather(state: State, bucket: State, deviation: Floats, times: Floats) -> Bools:
    """Add full buckets to their blocks of five minutes and return which of these are full.

    deviation [B, 3]: how the traffic of the buckets deviates.
    """
    sums, began = state["sums"], state["began_at"]
    fresh = (sums[:, base.DRAFTS] <= 0.0) | (bucket["began_at"] - began > evidence.STALE_SECONDS)
    began = np.where(fresh, bucket["began_at"], began)
    state["began_at"] = began
    sums *= ~fresh[:, None]
    sums += bucket["sums"]
    state["traffic"] *= ~fresh[:, None]
    state["traffic"] += deviation * bucket["sums"][:, base.DRAFTS, None]
    full: Bools = times - began >= BLOCK_SECONDS
    return full


def step(
    plan: base.DetectionPlan, state: State, baseline: State, traffics: State, times: Floats, enabled: Bools
) -> base.Verdict:
    """Return the verdict on full blocks; rows take part where `enabled`. `traffics`: state of `traffic`."""
    known = reference.known(baseline)
    _set_out(state, baseline, known)
    block = scores.against(state["sums"], np.where(known, state["rate"], 0.5), known)
    deviation = state["traffic"] / np.maximum(state["sums"][:, base.DRAFTS, None], 1.0)
    state["sums"], state["traffic"] = 0.0, 0.0
    score = base.clip(block.shift[:, 0], -LARGEST_SCORE, LARGEST_SCORE)
    information = np.maximum(block.information[:, 0], 1.0)
    seen = rhythm.expect(state["rhythm"], times - 0.5 * BLOCK_SECONDS)
    away, by_traffic = score - seen.level, traffic.sure(traffics, deviation)
    lag = np.maximum(times - state["last_at"], 0.0)
    raw, explained, error = _windows(state, away, by_traffic, information, lag, enabled)
    mean = traffic.left(raw, explained, np.zeros(1))
    variance = NOISE_SHARE * error + state["wander"][:, None] * _SHRINK + seen.unknown[:, None]
    z = mean / np.sqrt(variance) * (error < LARGEST_NOISE)
    limit = np.sqrt(2.0 * (base.nats(plan) + EXTRA_NATS))
    down, up = np.maximum(-z.min(1), 0.0) / limit, np.maximum(z.max(1), 0.0) / limit
    far = (raw[:, 0] + seen.level) * (state["blocks"] < DAY_BLOCKS)
    first_day = _first_day(state, baseline, information, error[:, 0], times)
    deep = np.maximum(-far / np.sqrt(first_day), 0.0) / limit
    shift = mean[np.arange(len(times)), np.where(down > up, z.argmin(1), z.argmax(1))]
    state["shift"] = np.where(deep > down, far, shift)
    state["expected"] = np.where(deep > down, 0.0, seen.level)
    _since(state, z[:, 0], times)
    highest = np.maximum(down := np.maximum(down, deep), up)
    _learn_noise(state, away - by_traffic, information, lag, enabled)
    calm = enabled & (highest < CALM) & (seen.of_week < state["wander"])
    _learn_wander(state, raw[:, 1] - explained[:, 1], error[:, 1], calm)
    noise = state["spread"] / information
    _learn_expected(state, traffics, seen, deviation, away, noise, enabled & (highest < 1.0))
    _pass(state, deviation, away, enabled)
    state["last_at"], state["last"] = times, away - by_traffic
    state["last_information"] = information * enabled
    state["blocks"] += enabled
    active = enabled & (state["blocks"] > START_BLOCKS)
    down = np.where(active, down, deep * (enabled & (state["blocks"] > YOUNG_BLOCKS)))
    since = state["down_since"].copy(), state["up_since"].copy()
    return base.Verdict(down, up * active, *since, highest < CALM)


def _set_out(state: State, baseline: State, known: Bools) -> None:
    """Take the baseline of the first quarter of an hour for where the `known` positions [B, 8] began."""
    unset = (state["rate"] <= 0.0) | (state["blocks"] < YOUNG_BLOCKS)[:, None]
    state["rate"] = np.where(known & unset, baseline["rate"], state["rate"])


def _first_day(state: State, baseline: State, information: Floats, error: Floats, times: Floats) -> Floats:
    """Return the variance [B] of how far the last quarter of an hour may lie from where the stream began.

    error [B]: of the window, for its few requests. Where it began is known as well as one block is.
    """
    few = NOISE_SHARE * (error + state["spread"] / information)
    return YOUNG_MARGIN**2 * (rhythm.strayed(times - baseline["began_at"], state["wander"]) + few)


def _windows(
    state: State, residual: Floats, explained: Floats, information: Floats, lag: Floats, enabled: Bools
) -> tuple[Floats, Floats, Floats]:
    """Return of each window [B, 3] its mean residual, what traffic explains, the variance of few requests."""
    noise = state["spread"] / information
    fade = np.exp(-lag[:, None] / WINDOWS)
    share = (1.0 / (noise + LEAST_SHARE_VARIANCE))[:, None]
    new = {
        "weight": state["weight"] * fade + share,
        "sum": state["sum"] * fade + share * residual[:, None],
        "explained": state["explained"] * fade + share * explained[:, None],
        "noise": state["noise"] * fade * fade + share * share * noise[:, None],
    }
    for name, value in new.items():
        state[name] = np.where(enabled[:, None], value, state[name])
    weight = new["weight"]
    return new["sum"] / weight, new["explained"] / weight, new["noise"] / (weight * weight)


def _since(state: State, z: Floats, times: Floats) -> None:
    """Remember when the shortest window last was on the other side of one standard deviation."""
    began = times - BLOCK_SECONDS
    state["down_since"] = np.where((z > -1.0) | (state["down_since"] == 0.0), began, state["down_since"])
    state["up_since"] = np.where((z < 1.0) | (state["up_since"] == 0.0), began, state["up_since"])


def _learn_noise(state: State, residual: Floats, information: Floats, lag: Floats, enabled: Bools) -> None:
    """Learn what few requests do to a block from how much neighbours differ."""
    spread, before = state["spread"], state["last_information"]
    use = enabled & (before > 0.0) & (lag < 3.0 * BLOCK_SECONDS)
    both = 1.0 / information + 1.0 / np.maximum(before, 1e-9)
    change = np.minimum((residual - state["last"]) ** 2 / np.where(use, both, 1.0), WINSOR * spread)
    gain = use / (SPREAD_BLOCKS + np.minimum(state["blocks"], SPREAD_MEMORY))
    state["spread"] = np.maximum(spread + gain * (change - spread), 1.0)


def _learn_wander(state: State, mean: Floats, error: Floats, calm: Bools) -> None:
    """Learn how far an hour's mean strays from the rhythm while nothing is wrong."""
    wander = state["wander"]
    # only calm hours are seen: what they leave out is made up for as the prior's weight goes
    seen = 1.0 - LEFT_OUT * np.minimum(state["blocks"] / LEARNT_BLOCKS, 1.0)
    strayed = base.clip((mean * mean - error) / (_SHRINK[1] * seen), 0.0, 9.0 * wander)
    gain = calm / (WANDER_BLOCKS + np.minimum(state["blocks"], WANDER_MEMORY))
    state["wander"] = np.maximum(wander + gain * (strayed - wander), WANDER_LEAST)


def _learn_expected(
    state: State,
    traffics: State,
    expectation: rhythm.Expectation,
    deviation: Floats,
    away: Floats,
    noise: Floats,
    use: Bools,
) -> None:
    """Move rhythm and traffic towards blocks that were `away` [B] from what the rhythm had expected."""
    days = np.where(use, BLOCK_SECONDS / rhythm.DAY, 0.0)
    surprise = away - traffic.sure(traffics, deviation)
    gain = rhythm.learn(state["rhythm"], expectation, surprise, noise, state["wander"], days)
    lasting = _AUTOCORRELATION * (state["wander"] + expectation.unknown)
    traffic.learn(traffics, deviation, away, noise + lasting, gain, days)


def _pass(state: State, deviation: Floats, residual: Floats, enabled: Bools) -> None:
    """Remember what traffic and level did while a trouble is open."""
    if enabled.all() and not state["passing"].any():
        return
    now = np.concatenate([deviation, residual[:, None], np.ones((len(enabled), 1))], 1)
    state["passing"] = np.where(enabled[:, None], 0.0, state["passing"] + now)


def passed(state: State, traffics: State) -> None:
    """Learn what traffic did while a trouble lasted that is over by itself."""
    blocks = state["passing"][:, -1].astype(np.float64)
    mean = state["passing"] / np.maximum(blocks, 1.0)[:, None]
    deviation, away = mean[:, : traffic.FIGURES], mean[:, traffic.FIGURES]
    unknown = rhythm.expect(state["rhythm"], state["last_at"]).unknown
    error = _AUTOCORRELATION * state["wander"] / np.maximum(blocks, 1.0) + unknown
    traffic.learn_passed(traffics, deviation, away, error, blocks * BLOCK_SECONDS)


def against(state: State, rate: Floats) -> Floats:
    """Return the level [B] that the rhythm expected of its last block, as a score against `rate`."""
    weight = rate * (1.0 - rate) * np.cumprod(np.concatenate([np.ones((len(rate), 1)), rate[:, :-1]], 1), 1)
    own = np.where(state["rate"] > 0.0, state["rate"], rate)
    moved = np.log(own / (1.0 - own)) - np.log(rate / (1.0 - rate))
    result: Floats = state["expected"] + (weight * moved).sum(1) / weight.sum(1)
    return result
