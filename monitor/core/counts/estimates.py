"""Counts -> what speculation is worth: acceptance, tokens per step and times, with intervals.

The unit of independence is the request, not the draft token: drafts of one request share its text. The
interval therefore takes the larger part of its width from how the stream's own scrape intervals differ,
and where there are too few of them from a prior spread between requests.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from monitor.core.counts import windows
from monitor.core.pages.engines.base import Counter

if TYPE_CHECKING:
    import numpy.typing as npt

    Floats = npt.NDArray[np.float64]

CONFIDENCE_QUANTILE = 1.959964
"""Standard errors on either side of a 95 % interval: the normal distribution's quantile at 0.975."""

# Cornish and Fisher's expansion of Student's quantile at 0.975 in 1 ÷ degrees of freedom (Abramowitz
# and Stegun 26.7.5): within 0.04 % from four degrees on. scipy's costs every sidecar its import.
_STUDENT = (2.372271, 2.822499, 2.555850, 1.589534)

REQUEST_SPREAD = 0.3
"""Standard deviation between requests of accepted tokens per draft, relative.

Public reports give ±50 % between requests of one kind, recorded runs 0 to 0.9 logits. It has a say in the
first minutes only.
"""

DRAFTS_PER_REQUEST = 64.0
"""Drafts of one request where the page does not count requests: 200 tokens at three a step."""

PRIOR_INTERVALS = 4.0
"""How many scrape intervals the prior spread is worth: at 15 s it has half the say in the first minute."""

MOST_INTERVALS_SPANNED = 60.0
"""Intervals that a request may span: a quarter of an hour at 15 s. Longer ones are an odd page's."""

BISECTIONS = 52
"""Halvings of [0, 1] for α: as many as a double has digits."""

TOLERATED_DRAFT_LENGTH = 0.02
"""Share by which draft tokens may exceed k · drafts: families of one page may be a step apart."""

TOLERATED_DRAFT_TOKENS = 64.0
"""The same in draft tokens, for windows of few drafts: one step of a full batch."""


@dataclass(frozen=True, slots=True)
class Estimates:
    """Estimates of N streams over one window; every field is [N] or [N, P], NaN where unknown.

    `conditional` at a position nothing reached (0 of 0) is unknown, never 0 or 1. `alpha` is a model value:
    the constant conditional acceptance with the same mean acceptance length. `tokens_per_step` counts what
    was delivered per decode step and request, so it is below the mean acceptance length (`mal`) where steps
    go without a draft. `implied_tpot_seconds` is the step time over it; `observed_tpot_seconds` comes from
    finished requests. Times in seconds.
    """

    seconds: Floats
    drafts: Floats
    draft_tokens: Floats
    accepted_tokens: Floats
    accepted: Floats
    mal: Floats
    mal_low: Floats
    mal_high: Floats
    marginal: Floats
    conditional: Floats
    draft_token_acceptance_ratio: Floats
    alpha: Floats
    coverage: Floats
    tokens_per_step: Floats
    step_seconds: Floats
    implied_tpot_seconds: Floats
    observed_tpot_seconds: Floats
    batch_size: Floats


def from_sums(sums: windows.Sums) -> Estimates:
    """Return the estimates over a window, one row per row of `sums`."""
    counters = np.where(sums.known, sums.vectors[:, windows.COUNTERS], np.nan)
    drafts = counters[:, Counter.DRAFTS]
    accepted_tokens = counters[:, Counter.ACCEPTED_TOKENS]
    accepted = np.where(
        np.arange(sums.vectors.shape[1] - windows.POSITIONS.start) < sums.positions[:, None],
        sums.vectors[:, windows.POSITIONS],
        np.nan,
    )
    per_draft = _ratio(accepted_tokens, drafts)
    num_speculative_tokens = _num_speculative_tokens(sums, counters)
    low, high = _interval(sums, counters, accepted, per_draft, num_speculative_tokens)
    outputs = counters[:, Counter.DECODE_OUTPUTS]
    coverage = np.minimum(_ratio(drafts, outputs), 1.0)
    tokens_per_step = _tokens_per_step(counters, coverage, per_draft)
    step_seconds = _step_seconds(counters)
    finished = counters[:, Counter.OUTPUT_TOKENS] - np.nan_to_num(counters[:, Counter.FINISHED_REQUESTS])
    return Estimates(
        seconds=sums.vectors[:, windows.SECONDS],
        drafts=drafts,
        draft_tokens=counters[:, Counter.DRAFT_TOKENS],
        accepted_tokens=accepted_tokens,
        accepted=accepted,
        mal=1.0 + per_draft,
        mal_low=low,
        mal_high=high,
        marginal=_ratio(accepted, drafts[:, None]),
        conditional=_ratio(accepted, np.concatenate((drafts[:, None], accepted[:, :-1]), axis=1)),
        draft_token_acceptance_ratio=_ratio(accepted_tokens, counters[:, Counter.DRAFT_TOKENS]),
        alpha=alpha_from_mal(1.0 + per_draft, num_speculative_tokens),
        coverage=coverage,
        tokens_per_step=tokens_per_step,
        step_seconds=step_seconds,
        implied_tpot_seconds=_ratio(step_seconds, tokens_per_step),
        observed_tpot_seconds=_ratio(counters[:, Counter.REQUEST_DECODE_SECONDS], finished),
        batch_size=_ratio(
            outputs + np.nan_to_num(counters[:, Counter.FIRST_TOKENS]), counters[:, Counter.ENGINE_STEPS]
        ),
    )


def draft_length(made: Estimates) -> Floats:
    """Return the tokens drafted per draft [N], NaN where unknown."""
    return _ratio(made.draft_tokens, made.drafts)


def mal_from_alpha(alpha: Floats | float, num_speculative_tokens: int) -> Floats:
    """Return (1 − α^(k+1)) ÷ (1 − α): the tokens per step of a constant conditional acceptance."""
    return np.asarray(
        np.power(np.asarray(alpha, float)[..., None], np.arange(num_speculative_tokens + 1)).sum(-1)
    )


def alpha_from_mal(mal: Floats, num_speculative_tokens: npt.NDArray[np.int64]) -> Floats:
    """Return the α of which `mal_from_alpha` is `mal` [N], within 1e-9; NaN where k [N] or MAL is unknown."""
    depth = int(num_speculative_tokens.max(initial=0))
    used = np.arange(depth + 1) <= num_speculative_tokens[:, None]
    low, high = np.zeros(len(mal)), np.ones(len(mal))
    for _ in range(BISECTIONS if depth else 0):
        middle = (low + high) / 2
        below = (np.power(middle[:, None], np.arange(depth + 1)) * used).sum(1) < mal
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    alpha = np.where(mal <= 1.0, 0.0, np.where(mal >= num_speculative_tokens + 1.0, 1.0, (low + high) / 2))
    return np.where(np.isnan(mal) | (num_speculative_tokens <= 0), np.nan, alpha)


def _ratio(numerator: Floats, denominator: Floats) -> Floats:
    """Return the ratio, NaN where the denominator is not above zero."""
    positive = denominator > 0
    return np.where(positive, numerator / np.where(positive, denominator, 1.0), np.nan)


def _num_speculative_tokens(sums: windows.Sums, counters: Floats) -> npt.NDArray[np.int64]:
    """Return k [N]: the page's, or the draft tokens per draft rounded up; 0 where it is unknown.

    Where more was drafted than k allows, the window has drafts of a larger k as well: there is no one k.
    """
    drafts, tokens = counters[:, Counter.DRAFTS], counters[:, Counter.DRAFT_TOKENS]
    drafted = np.nan_to_num(_ratio(tokens, drafts))
    stated = sums.num_speculative_tokens
    mixed = tokens > stated * drafts * (1.0 + TOLERATED_DRAFT_LENGTH) + TOLERATED_DRAFT_TOKENS
    counted = np.ceil(drafted - TOLERATED_DRAFT_LENGTH).astype(np.int64)
    return np.where(stated > 0, np.where(mixed, 0, stated), counted)


def _tokens_per_step(counters: Floats, coverage: Floats, per_draft: Floats) -> Floats:
    """Return what was delivered per decode step; where that is not counted, what coverage and MAL imply."""
    delivered = counters[:, Counter.GENERATION_TOKENS] - counters[:, Counter.FIRST_TOKENS]
    modelled = 1.0 + coverage * np.where(coverage == 0, 0.0, per_draft)
    return np.where(np.isnan(delivered), modelled, _ratio(delivered, counters[:, Counter.DECODE_OUTPUTS]))


def _step_seconds(counters: Floats) -> Floats:
    by_output = _ratio(counters[:, Counter.DECODE_SECONDS], counters[:, Counter.DECODE_OUTPUTS])
    by_step = _ratio(counters[:, Counter.ENGINE_STEP_SECONDS], counters[:, Counter.ENGINE_STEPS])
    return np.where(np.isnan(counters[:, Counter.DECODE_SECONDS]), by_step, by_output)


def _interval(
    sums: windows.Sums,
    counters: Floats,
    accepted: Floats,
    per_draft: Floats,
    num_speculative_tokens: npt.NDArray[np.int64],
) -> tuple[Floats, Floats]:
    """Return the 95 % interval of the mean acceptance length.

    The variance of accepted ÷ drafts is that of a ratio of totals over scrape intervals, widened by how many
    intervals a request spans, mixed with a prior (counting noise and the spread between requests) that is
    worth `PRIOR_INTERVALS` intervals. Both totals are shifted by a few drafts as for a small proportion, so
    that zero accepted of forty does not claim certainty.
    """
    drafts = counters[:, Counter.DRAFTS]
    intervals = sums.vectors[:, windows.INTERVALS]
    shifted = (np.nan_to_num(per_draft) * drafts + 2.0) / (drafts + 4.0)
    weights = 2.0 * np.arange(accepted.shape[1]) + 1.0
    second_moment = np.nan_to_num(accepted * weights).sum(1) / np.maximum(drafts, 1.0)
    spread = np.where(
        np.isnan(accepted[:, 0]), shifted * (1.0 + shifted), second_moment - np.nan_to_num(per_draft) ** 2
    )
    counting = np.maximum(spread, shifted * (1.0 - np.minimum(shifted, 0.5))) / (drafts + 4.0)
    requests = _requests(sums, counters)
    prior = counting + (REQUEST_SPREAD * shifted) ** 2 / requests
    squares = (
        sums.vectors[:, windows.ACCEPTED_SQUARED]
        - 2.0 * per_draft * sums.vectors[:, windows.DRAFTS_ACCEPTED]
        + per_draft**2 * sums.vectors[:, windows.DRAFTS_SQUARED]
    )
    freedom = np.maximum(intervals - 1.0, 0.0)
    between = np.maximum(squares, 0.0) / np.maximum(drafts, 1.0) ** 2 * intervals / np.maximum(freedom, 1.0)
    between *= _intervals_per_request(sums, counters, requests)
    total = PRIOR_INTERVALS + freedom
    variance = np.maximum((PRIOR_INTERVALS * prior + freedom * between) / total, counting)
    half = student_quantile(total) * np.sqrt(variance)
    ceiling = np.where(num_speculative_tokens > 0, num_speculative_tokens, np.inf)
    low = 1.0 + np.minimum(np.maximum(shifted - half, 0.0), per_draft)
    return low, 1.0 + np.maximum(np.minimum(shifted + half, ceiling), per_draft)


def student_quantile(freedom: Floats) -> Floats:
    """Return the quantile of Student's distribution at 0.975 for four degrees of `freedom` and more."""
    first, second, third, fourth = _STUDENT
    rest: Floats = (first + (second + (third + fourth / freedom) / freedom) / freedom) / freedom
    return CONFIDENCE_QUANTILE + rest


def _requests(sums: windows.Sums, counters: Floats) -> Floats:
    """Return of how many requests [N] the drafts are, at least 1, and no more than are known of.

    Drafts that are credited at the end of requests are those of the ones that ended; where these are not
    counted either, each interval that had any is of one.
    """
    drafts, finished = counters[:, Counter.DRAFTS], counters[:, Counter.FINISHED_REQUESTS]
    begun = counters[:, Counter.FIRST_TOKENS]
    live = np.where(np.isnan(begun), drafts / DRAFTS_PER_REQUEST, begun)
    lumps = np.where(np.isnan(finished), sums.vectors[:, windows.INTERVALS], finished)
    return np.maximum(np.where(sums.at_request_end, lumps, live), 1.0)


def _intervals_per_request(sums: windows.Sums, counters: Floats, requests: Floats) -> Floats:
    """Return how many intervals tell what one would if requests did not span them, at least 1.

    A request of random length that spans n intervals on the average makes 2n - 1 of them tell the same. What
    is credited at its end spans none.
    """
    seconds = np.nan_to_num(counters[:, Counter.DECODE_SECONDS]) / requests * ~sums.at_request_end
    interval = sums.vectors[:, windows.SECONDS] / np.maximum(sums.vectors[:, windows.INTERVALS], 1.0)
    spanned = np.minimum(seconds / np.maximum(interval, 1e-3), MOST_INTERVALS_SPANNED)
    return np.maximum(1.0 + spanned, 2.0 * spanned)
