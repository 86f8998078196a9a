"""`shape`: some positions moved against the others (contrasts, a bank of cumulative sums).

Contrast s is the shift in logit of positions from s on, less that of the positions before s. What makes a
request hard moves all positions alike and cancels, so contrasts are ten times quieter than the level. For
sizes g of 0.25, 0.7 and 2 logits, both directions and s = 1 … 7

    S = max(S + (g (|contrast| - band) - g²/2) / v, 0),   v the variance, enlarged for correlation,

with a band of `DEAD_BAND` logits (more in the first hours) and 3 errors of the baseline. Buckets are worth
at most `LARGEST_SHARE` of the limit, less where few requests made them.

Few requests have heavier tails than their variance tells (`TAILS`). Of unequal difficulty they look like a
rise, which therefore needs four nats more and a wider band (`MIXED_ERRORS` of the level's). Late positions
that fall are a `tail_drop`. Where the late ones seem to rise it is the early ones that fell:
blank drafts fail at position 0 only, and a subset of requests that collapses leaves the better ones for the
late positions. Assumes that requests differ alike at all positions; where they do not, the learnt variance
and the excursions' tail raise the limit. Cannot see anything at k = 1.

Measured (`make bench-detection`; found and in the median): positions 4 and 5 falling by 0.85 logits
`late-high` 100 % in 0.4 min, by 0.35 at 300,000 drafts a scrape `late-small-huge` 100 % in 0.4 min; half
of the drafts blank `blank-half` 100 % in 0.5 min, a tenth `blank-tenth` 100 % in 0.9 min; 30 % of the
requests collapsing `subset-30pct` 100 % in 0.4 min. By other measurements: where requests have the tails
of a t distribution with 4 degrees of freedom, three false alarms a month at 8 slots.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from monitor.core.detectors import base
from monitor.core.detectors.measures import excursions

if TYPE_CHECKING:
    from monitor.core.detectors.base import Bools, Bucket, Floats, State

NAME = "shape"

CONTRASTS = base.POSITIONS - 1
"""Contrasts: one before each position but the first."""

SIZES = np.array([0.25, 0.7, 2.0])
"""Logits of the moves that are looked for: a move between two of them is found nearly as soon."""

DEAD_BAND = 0.08
"""Logits that a contrast may be off before anything counts: what prompts of another kind do."""

SETTLING, SETTLING_SECONDS = 2.0, 3 * 3600.0
"""How many times wider the band is at first, and the seconds (e-folding) in which it narrows."""

DOUBT_ERRORS = 3.0
"""Standard errors of the baseline's own contrast that are added to the band."""

MIXED_ERRORS = 0.5
"""Errors of the level that a rise must be beyond: unequal requests look like one where they are few."""

EXTRA_NATS = np.array([1.5, 5.5])
"""Nats on top of the plan's, of falls and of rises: measured, for false alarms of all seven together."""

EXCURSIONS_PRIOR = 12.0
"""Excursions that a tail as it should be is worth: a stream's own takes over within a day."""

STEEPEST_TAIL = 2.5
"""Times that the limit may grow for heavy tails: beyond it late positions would not be found at all."""

SHARE, LEAST_SHARE, LARGEST_SHARE = 0.012, 0.05, 0.6
"""Share of the limit that a bucket may be worth: SHARE over the level's variance, which tells the requests,
between LEAST_SHARE and LARGEST_SHARE."""

TAILS, FEW = 0.35, 0.035
"""How much larger the variance is where requests are few (TAILS), and the level's variance from which on
(FEW)."""

LARGEST_LOSS = -0.3
"""Share of the limit that one bucket may take away."""

CORRELATION_PRIOR = 30.0
"""Buckets that a correlation of 0.2 is worth before the stream's own was learnt."""

CORRELATION_MEMORY = 3000.0
"""Buckets (e-folding) over which the correlation is learnt: half a day at 15 s."""

LARGEST_CORRELATION = 0.85
"""The largest correlation that is believed: it enlarges the variance twelve times."""

WINSOR_ERRORS = 4.0
"""Errors that a score counts for at most in learning the correlation."""

_BANK = (CONTRASTS, 2, len(SIZES))
"""The shape of the sums: contrasts, fall and rise, sizes."""

DTYPE = np.dtype(
    [
        ("sums", "f4", _BANK),  # likelihood ratio, nats
        ("since", "f4", _BANK),  # when each sum left 0, seconds after `epoch`
        ("epoch", "f8"),  # first bucket's begin, unix seconds
        ("last", "f4", base.POSITIONS),  # score of the last bucket, errors
        ("product", "f4", base.POSITIONS),  # of neighbouring scores, faded
        ("square", "f4", base.POSITIONS),  # of scores, faded
        ("peak", "f4", (CONTRASTS, 2)),  # highest sum of the excursion under way, nats
        ("excursions", "f4", (CONTRASTS, 2)),  # excursions that ended, with the prior, faded
        ("excess", "f4", (CONTRASTS, 2)),  # sum of what their peaks exceeded, nats
    ],
)


def allocate(state: State) -> None:
    """Set fresh rows to what is assumed before anything was learnt."""
    state["product"] = 0.2 * CORRELATION_PRIOR
    state["square"] = CORRELATION_PRIOR
    excursions.allocate(state, EXCURSIONS_PRIOR)


def restart(state: State) -> None:
    """Forget the sums; what was learnt of the noise stays."""
    state["sums"] = 0.0
    state["peak"] = 0.0


def limits(plan: base.DetectionPlan, state: State) -> Floats:
    """Return the decision limit [B, 7, 2] in nats for falls and rises of each contrast."""
    nats = base.nats(plan) + EXTRA_NATS
    return excursions.limits(nats, state, STEEPEST_TAIL)


def step(
    plan: base.DetectionPlan, state: State, bucket: Bucket, baseline: State, spread: Floats, enabled: Bools
) -> Floats:
    """Return the scores [B, 14] of full buckets: fall and rise of each contrast, in units of the limit.

    spread [B, 8]: variance of the scores over binomial variance, which also tells how well the baseline
    knows its own contrasts; contrasts alarm where `enabled` [B, 7].
    """
    contrast = bucket.score[:, 1:]
    doubt = spread[:, 1:] / np.maximum(baseline["information"][:, 1:], 1.0)
    settling = DEAD_BAND * (1.0 + SETTLING * np.exp(-bucket.age / SETTLING_SECONDS))
    beyond = np.abs(contrast) - settling[:, None] - DOUBT_ERRORS * np.sqrt(doubt)
    watched = enabled & bucket.usable[:, 1:]
    old = state["sums"]
    active = (watched & (beyond > 0.0)).any(1) | (old > 0.0).any((1, 2, 3))
    if not active.any():
        return np.zeros((len(contrast), 2 * CONTRASTS))
    correlation = base.clip(state["product"][:, 1:] / state["square"][:, 1:], 0.0, LARGEST_CORRELATION)
    variance = bucket.variance[:, 1:] * (1.0 + correlation) / (1.0 - correlation)
    few = base.clip(bucket.variance[:, :1] / FEW - 0.5, 0.0, 1.0)
    variance *= 1.0 + TAILS * few
    limit = limits(plan, state)
    share = base.clip(SHARE / bucket.variance[:, :1], LEAST_SHARE, LARGEST_SHARE)[:, None]
    # on the other side of the dead band lies what speaks against a change
    inward = 2.0 * np.abs(contrast)
    mixed = MIXED_ERRORS * np.sqrt(bucket.variance[:, :1]) * (1.0 + few)
    falls, rises = beyond - inward * (contrast > 0.0), beyond - inward * (contrast < 0.0) - mixed
    sides = np.stack([falls, rises], 2)[..., None]
    gain = (SIZES * sides - 0.5 * SIZES * SIZES) / variance[..., None, None]
    gain = base.clip(gain, LARGEST_LOSS * limit[..., None], (share * limit)[..., None] + 0.01)
    new = np.where(watched[..., None, None], np.maximum(old + gain, 0.0), old)
    epoch = np.where((state["epoch"] > 0.0) | ~active, state["epoch"], bucket.began_at)
    since = (bucket.began_at - epoch)[:, None, None, None]
    state["since"] = np.where((old <= 0.0) & (new > 0.0), since, state["since"])
    state["sums"], state["epoch"] = new, epoch
    top = new.max(3)
    excursions.learn(state, top, top <= 0.0, watched[..., None])
    ratio: Floats = (top / limit * watched[..., None]).reshape(len(contrast), -1)
    return ratio


def learn(state: State, bucket: Bucket, use: Bools) -> None:
    """Learn how a score follows its last value from calm buckets (`use` [B, 8], the level's first)."""
    scaled = base.clip(bucket.score / np.sqrt(bucket.variance), -WINSOR_ERRORS, WINSOR_ERRORS) * use
    fade = 1.0 - use / CORRELATION_MEMORY
    state["product"] = state["product"] * fade + scaled * state["last"]
    state["square"] = state["square"] * fade + scaled * scaled
    state["last"] = np.where(use, scaled, state["last"])


def since(state: State, row: int, score: int) -> float:
    """Return when the excursion of one of the 14 scores began, unix seconds."""
    sums = state["sums"][row].reshape(2 * CONTRASTS, -1)[score]
    return float(
        state["epoch"][row] + state["since"][row].reshape(2 * CONTRASTS, -1)[score, int(sums.argmax())]
    )
